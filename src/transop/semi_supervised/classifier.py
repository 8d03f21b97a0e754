"""What learning from few labels gives: a classifier, and the graph's answer for every image."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from transop.artifacts import read_pretrained, write_pretrained
from transop.artifacts.description import Names, Size
from transop.errors import ArtifactError, show
from transop.inputs import check_images, check_path
from transop.networks import LeNet, prefer_channels_last

_AT_ONCE = 500
_KIND = "classifier"  # of the stored files
_Share = Annotated[float, Field(ge=0, le=1, strict=True)]


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Share of labelled images that were named rightly while their own label was hidden."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # for reading it from a file

    share: _Share
    # One right and one wrong answer are added to those that were counted, so that it is never 0.
    standard_error: _Share

    @classmethod
    def of(cls, right: Float[np.ndarray, " m"]) -> ExpectedAccuracy:
        """Sum up answers: 1 for a right one, 0 for a wrong one."""
        careful = (right.sum() + 1) / (len(right) + 2)
        error = np.sqrt(careful * (1 - careful) / (len(right) + 2))
        return cls(float(right.mean()), float(error))

    def __str__(self) -> str:
        return f"{self.share:.1%} ± {self.standard_error:.1%}"


@dataclass(frozen=True)
class GraphLabels:
    """What the neighbour graph says about the images it was made of.

    Attributes:
        probabilities: of every class, for every image.
        given: the class number of a labelled image, -1 of any other.
        files: the file of every image below its folder or archive, if it came from one.
        expected_accuracy: for images of the graph that have no label; None if not measured.
    """

    probabilities: Float[np.ndarray, "n k"]
    given: Int[np.ndarray, " n"]
    files: tuple[str, ...] | None
    expected_accuracy: ExpectedAccuracy | None

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """The class number of every image: the given one, else the likeliest."""
        return np.where(self.given >= 0, self.given, self.probabilities.argmax(1))


@dataclass(frozen=True, eq=False)
class FewLabelClassifier:
    """A classifier for new images, and how often it is right as far as the few labels can tell.

    Attributes:
        network: maps images in [0, 1] to logits.
        class_names: one name per class number.
        expected_accuracy: for new images; None if not measured.
        n_labelled: labelled images that it has learned from.
        n_unlabelled: images without label that it has learned from.
        image_shape: channels, height and width of the images it takes.
        graph: the answers for the images it has learned from; None if it was loaded.
    """

    network: nn.Module
    class_names: tuple[str, ...]
    expected_accuracy: ExpectedAccuracy | None
    n_labelled: int
    n_unlabelled: int
    image_shape: tuple[int, ...]
    graph: GraphLabels | None = None

    @torch.inference_mode()
    def probabilities(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        """Give the probability of every class for each image."""
        batch, _ = check_images(images, self.image_shape, next(self.network.parameters()))
        return torch.cat([self.network(part).softmax(1) for part in torch.split(batch, _AT_ONCE)])

    def predict(self, images: Float[Tensor, "b c h w"]) -> list[str]:
        """Name the class of each image."""
        return [self.class_names[int(c)] for c in self.probabilities(images).argmax(1)]

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``config.json`` into a folder, each in one step."""
        expected = self.expected_accuracy
        description = {
            "transop": version("transop"),
            "network": "lenet",
            "class_names": list(self.class_names),
            "image_shape": list(self.image_shape),
            "n_labelled": self.n_labelled,
            "n_unlabelled": self.n_unlabelled,
            "expected_accuracy": None if expected is None else asdict(expected),
        }
        weights = dict(self.network.state_dict())
        write_pretrained(check_path("folder", folder), description, weights, kind=_KIND)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> FewLabelClassifier:
        """Load a classifier that `save_pretrained` or ``transop label`` wrote."""
        config, weights, file = read_pretrained(folder, kind=_KIND)
        try:
            told = _Description.model_validate(config)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where, value = ".".join(map(str, first["loc"])), show(first["input"])
            raise ArtifactError(f"'{file}': {where} = {value}: {first['msg']}") from None
        channels, size, _ = told.image_shape
        try:
            with torch.device("meta"):  # nothing is allocated for sizes that the weights lack
                network = LeNet(image_size=size, channels=channels, n_classes=len(told.class_names))
            network.load_state_dict({k: w.float() for k, w in weights.items()}, assign=True)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise ArtifactError(f"'{file}' does not fit its description: {reason}") from None
        prefer_channels_last(network)
        return cls(
            network.requires_grad_(True).eval(),
            tuple(told.class_names),
            told.expected_accuracy,
            told.n_labelled,
            told.n_unlabelled,
            told.image_shape,
        )


class _Description(BaseModel):
    """What a stored classifier says about itself."""

    model_config = ConfigDict(extra="forbid")

    transop: str
    network: Annotated[str, Field(pattern="^lenet$")]
    class_names: Names
    image_shape: tuple[Size, Size, Size]
    n_labelled: int = Field(ge=0)
    n_unlabelled: int = Field(ge=0)
    expected_accuracy: ExpectedAccuracy | None
