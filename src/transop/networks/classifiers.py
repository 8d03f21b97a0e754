"""Small networks on images and latents: classifiers, and the scales of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transop.errors import UserError


class LeNet(nn.Module):
    """LeNet-5: two convolutions and three linear layers, for any square size from 16.

    Differs from the 1998 network: ReLU and max pooling; the first convolution is padded, which
    at 28 pixels equals the original's 32-pixel input.
    """

    def __init__(self, *, image_size: int, channels: int, n_classes: int) -> None:
        super().__init__()
        if image_size < 16:
            raise UserError(f"image_size = {image_size}: LeNet takes images of 16 pixels or more")
        side = (image_size // 2 - 4) // 2
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * side**2, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, n_classes),
        )

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        """Map images in [0, 1] to class logits."""
        logits: Tensor = self.head(self.features(images))
        return logits


class LatentClassifier(nn.Module):
    """The paper's latent classifier: Linear(512), ReLU, Linear(classes), on scaled latents."""

    def __init__(self, *, latent_dimension: int, n_classes: int, hidden: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent_dimension, hidden), nn.ReLU(), nn.Linear(hidden, n_classes)
        )

    def forward(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        """Map scaled latent points to class logits."""
        logits: Tensor = self.layers(latents)
        return logits


class CoefficientEncoder(nn.Module):
    """Maps scaled latent points to one positive Laplace scale per operator.

    [SCALES]  b(z) = multiplier * exp(0.5 * network(z))

    The exponential keeps scales positive; a network at zero gives the multiplier itself.
    """

    def __init__(
        self,
        latent_dimension: int,
        n_operators: int,
        *,
        hidden: Sequence[int] = (512, 512),
        scale_multiplier: float = 0.1,
    ) -> None:
        super().__init__()
        self.latent_dimension = latent_dimension
        self.n_operators = n_operators
        self.hidden = tuple(hidden)
        self.scale_multiplier = scale_multiplier
        sizes = [latent_dimension, *self.hidden]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], n_operators))

    def forward(self, latents: Float[Tensor, "*b d"]) -> Float[Tensor, "*b m"]:
        """Give the scale of every operator's coefficient at every point."""
        scales: Tensor = self.scale_multiplier * (0.5 * self.layers(latents)).exp()
        return scales

    def architecture(self) -> dict[str, Any]:
        """List the keyword arguments that build this network again."""
        return {
            "latent_dimension": self.latent_dimension,
            "n_operators": self.n_operators,
            "hidden": list(self.hidden),
            "scale_multiplier": self.scale_multiplier,
        }
