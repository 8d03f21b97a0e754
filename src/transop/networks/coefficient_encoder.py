"""The network that says how far each operator may go at a point."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


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
