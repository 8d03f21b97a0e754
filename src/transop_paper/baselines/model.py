"""What all baselines share: images in, straight latent paths, two files on disk."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.artifacts import read_pretrained, write_pretrained
from transop.errors import ArtifactError, UserError
from transop.networks import build_autoencoder, prefer_channels_last

_CHUNK = 250  # images through a network at once: larger chunks leave the cache and are slower


class Baseline(nn.Module):
    """An autoencoder whose paths are straight lines in its latent space.

    Calling it with images and a generator gives the loss its training minimises; the other
    methods run the network in evaluation mode and without gradients.
    """

    method: ClassVar[str]
    number_names: ClassVar[frozenset[str]] = frozenset()
    latent_covariance: Tensor

    def __init__(self, network: nn.Module, *, numbers: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.network: Any
        self.network = network  # encoder and decoder
        self.numbers = dict(numbers or {})  # settings that belong to the method, such as beta
        self.phases: tuple[str, ...] = ()  # the training phases this model has been through
        self.class_names: tuple[str, ...] | None = None
        dimension: int = self.network.shape.latent_dimension
        self.register_buffer("latent_covariance", torch.eye(dimension))
        self.eval()

    @classmethod
    def build(cls, numbers: dict[str, Any], **architecture: Any) -> Self:
        """Build an untrained model from its method's numbers and its network's description.

        ``numbers`` are those that ``number_names`` lists, e.g. ``{"beta": 5.0}``;
        ``architecture`` is what `build_autoencoder` takes.
        """
        if set(numbers) != cls.number_names:
            raise UserError(
                f"a model '{cls.method}' needs the numbers {sorted(cls.number_names)}, got "
                f"{sorted(numbers)}"
            )
        return cls(cls.build_network(**architecture), numbers=numbers)

    @staticmethod
    def build_network(**architecture: Any) -> nn.Module:
        """Build the untrained network; here that of our method."""
        return build_autoencoder(**architecture)

    def forward(
        self, images: Float[Tensor, "b c h w"], generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Measure the loss that training minimises; here the mean squared error of pixels."""
        del generator
        loss: Tensor = (self.network(images) - images).square().mean()
        return loss

    def directions(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d d"]:
        """Name the latent steps a traversal takes at each image, most important first.

        Here: the principal axes of the latents, one standard deviation long, the same for all.
        """
        values, vectors = torch.linalg.eigh(self.latent_covariance)
        steps = (vectors * values.clamp_min(0).sqrt()).flip(1).mT
        return with_fixed_signs(steps).expand(len(images), -1, -1)

    @property
    def device(self) -> torch.device:
        """Where the weights are; inputs are brought there."""
        return self.latent_covariance.device

    @property
    def latent_dimension(self) -> int:
        """Number of latent dimensions, d."""
        return len(self.latent_covariance)

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to latent points."""
        with self.evaluating(), torch.no_grad():
            return _in_chunks(self.network.encode, images.to(self.device))

    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map latent points to images in [0, 1]."""
        with self.evaluating(), torch.no_grad():
            return _in_chunks(self.network.decode, latents.to(self.device))

    def latent_path(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], times: Float[Tensor, " t"]
    ) -> Float[Tensor, "b t d"]:
        """Go straight from z0 through z1 and on."""
        return z0[:, None] + times[:, None] * (z1 - z0)[:, None]

    def traversal(
        self, images: Float[Tensor, "b c h w"], component: int, amounts: Float[Tensor, " t"]
    ) -> Float[Tensor, "b t d"]:
        """Move the latents of images along one of their directions, by every amount."""
        step = self.directions(images)[:, component]
        return self.encode(images)[:, None] + amounts[:, None].to(step) * step[:, None]

    @torch.no_grad()
    def measure_latents(self, latents: Float[Tensor, "n d"]) -> None:
        """Remember how the training images spread, which gives traversals their units."""
        covariance = torch.cov(latents.mT)
        self.latent_covariance.copy_(covariance.reshape(self.latent_covariance.shape))

    def config(self) -> dict[str, Any]:
        """Describe everything but the weights, by names and numbers."""
        return {
            "method": self.method,
            "network": self.network.architecture(),
            "numbers": self.numbers,
            "phases": list(self.phases),
            "class_names": self.class_names and list(self.class_names),
        }

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``config.json`` into a folder, each in one step."""
        write_pretrained(Path(folder), self.config(), dict(self.state_dict()))

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, device: torch.device | str | None = None
    ) -> Self:
        """Load a baseline that ``save_pretrained`` wrote; nothing in the files is executed."""
        config, weights, origin = read_pretrained(folder)
        if config.get("method") != cls.method:
            raise ArtifactError(f"'{origin}' holds no {cls.method} model")
        try:
            model = cls.build(config["numbers"], **config["network"])
            model.load_state_dict(weights)
        except (KeyError, TypeError, RuntimeError) as error:
            raise ArtifactError(f"'{origin}' does not fit its description: {error}") from None
        model.phases = tuple(config["phases"])
        model.class_names = config["class_names"] and tuple(config["class_names"])
        prefer_channels_last(model)  # as while it was trained: another layout rounds otherwise
        return model.to(device) if device is not None else model

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch to evaluation mode and back afterwards."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)


class LinearAutoencoder(Baseline):
    """The autoencoder of the first phase, never adapted to operators."""

    method = "ae"


def with_fixed_signs(directions: Float[Tensor, "*b k d"]) -> Float[Tensor, "*b k d"]:
    """Flip directions so that the largest entry of each is positive: axes have no sign."""
    largest = directions.abs().argmax(-1, keepdim=True)
    return directions * directions.gather(-1, largest).sign()


def _in_chunks(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    return torch.cat([function(chunk) for chunk in torch.split(inputs, _CHUNK)])
