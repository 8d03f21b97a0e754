"""The plain autoencoder: reconstruction alone, straight lines between latents."""

from __future__ import annotations

from typing import Any, Self

from transop.networks import build_autoencoder
from transop_paper.baselines.model import Baseline


class LinearAutoencoder(Baseline):
    """The autoencoder of the first phase, never adapted to operators."""

    method = "ae"

    @classmethod
    def build(cls, numbers: dict[str, Any], **architecture: Any) -> Self:
        """Build the same network that our method uses."""
        return cls(build_autoencoder(**architecture), numbers=numbers)
