"""The plain autoencoder: reconstruction alone, straight lines between latents."""

from __future__ import annotations

from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from transop.baselines.model import Baseline
from transop.networks import build_autoencoder


class LinearAutoencoder(Baseline):
    """The autoencoder of the first phase, never adapted to operators."""

    method = "ae"

    @classmethod
    def build(cls, numbers: dict[str, Any], **architecture: Any) -> Self:
        """Build the same network that our method uses."""
        return cls(build_autoencoder(**architecture), numbers=numbers)

    def forward(
        self, images: Float[Tensor, "b c h w"], generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Measure the mean squared error of reconstructed pixels."""
        del generator
        reconstruction: Tensor = self.network(images)
        return (reconstruction - images).square().mean()
