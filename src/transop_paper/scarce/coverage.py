"""Measure where accuracy is lost: to images that moves do not reach, or to wrong labels.

Every validation image takes the label of the closest image, pixel by pixel, that a row would
train on. A reference classifier that no row has seen, a LeNet-5 trained on all training labels,
tells which of the row's images no longer show their label. *Missed* are validation images that get
a wrong label even when those images are left out: no rightly labelled image is close. *Misled* are
the additional errors when they are put back. The reference classifier errs on real images too; the
row "none" shows how often.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import ImageDataset
from transop.networks import LeNet
from transop.progress import Progress, silent
from transop_paper.scarce.experiment import Experiment, make_training_images
from transop_paper.scarce.protocol import Protocol, draw_labelled, train_network
from transop_paper.scarce.rows import Row

_REFERENCE_SEED = 9_001  # no row's network starts from it
_REFERENCE = Protocol(n_steps=8_000, batch_size=64, schedule="cosine")
_CHUNK = 500


@dataclass(frozen=True)
class Coverage:
    """How well the training images of one row and seed label the validation images."""

    row: str
    label_errors: float  # share of the row's images that the reference classifier labels otherwise
    missed: float  # share of validation images
    misled: float  # share of validation images; negative if wrong labels did more good than harm
    examples: Float[Tensor, "k c h w"]  # one image per class, as the row would train on it


class CoverageStudy:
    """Measures rows against the validation images of one data set.

    ``n_images`` training images are made for each row, which label ``n_validation`` images.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        n_images: int = 20_000,
        n_validation: int = 5_000,
        reference_steps: int | None = None,
        progress: Progress = silent,
    ) -> None:
        self._experiment, self._n_images, self._progress = experiment, n_images, progress
        data = experiment.dataset
        self._reference = _train_reference(data, reference_steps or _REFERENCE.n_steps, progress)
        assert data.labels is not None
        rows = data.splits["validation"][:n_validation]
        self._pixels = data.batch(rows).flatten(1)
        self._truth = torch.from_numpy(data.labels[rows])

    def measure(self, row: Row, seed: int) -> Coverage:
        """Make images as a row would train on them, and label validation images by them."""
        experiment = self._experiment
        images, labels, _ = draw_labelled(experiment.dataset, experiment.protocol.n_per_class, seed)
        make = make_training_images(experiment, row, seed, images, labels, self._progress)
        made, made_labels = make(self._n_images)
        right = self._classify(made) == made_labels
        missed = self._errors(made[right], made_labels[right])
        firsts = [int((made_labels == label).nonzero()[0]) for label in set(made_labels.tolist())]
        return Coverage(
            row=row.name,
            label_errors=1 - float(right.float().mean()),
            missed=missed,
            misled=self._errors(made, made_labels) - missed,
            examples=made[firsts],
        )

    @torch.inference_mode()
    def _classify(self, images: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
        return torch.cat([self._reference(part).argmax(1) for part in torch.split(images, _CHUNK)])

    @torch.inference_mode()
    def _errors(self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> float:
        """Give the share of validation images whose closest image has another label."""
        pixels = images.flatten(1)
        guesses = [
            labels[torch.cdist(part, pixels).argmin(1)]
            for part in torch.split(self._pixels, _CHUNK)
        ]
        return float((torch.cat(guesses) != self._truth).float().mean())


def _train_reference(data: ImageDataset, n_steps: int, progress: Progress) -> LeNet:
    """Train a network on all training labels, from weights and batches no row has."""
    rows, generator = data.splits["train"], torch.Generator().manual_seed(_REFERENCE_SEED)

    def draw(n: int) -> tuple[Tensor, Tensor]:
        chosen = rows[torch.randint(len(rows), (n,), generator=generator).numpy()]
        assert data.labels is not None
        return data.batch(chosen), torch.from_numpy(data.labels[chosen])

    return train_network(
        draw,
        replace(_REFERENCE, n_steps=n_steps),
        image_shape=data.image_shape,
        n_classes=data.n_classes,
        seed=_REFERENCE_SEED,
        progress=progress,
        description="reference classifier",
    )
