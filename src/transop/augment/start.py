"""Where moves start: encoded images, and what a guard must go on calling them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Start:
    """Encoded images.

    Attributes:
        latents: in scaled units.
        rest: the part of the latents that operators leave alone; None if they act on all of it.
        names: the class that a guard's classifier must go on giving to each; None without guard.
    """

    latents: Float[Tensor, "b d"]
    rest: Float[Tensor, "b w"] | None = None
    names: Int[Tensor, " b"] | None = None

    def rows(self, rows: Int[Tensor, " r"]) -> Start:
        """Take some of them."""
        return Start(
            self.latents[rows],
            None if self.rest is None else self.rest[rows],
            None if self.names is None else self.names[rows],
        )

    @staticmethod
    def join(parts: Sequence[Start]) -> Start:
        """Put parts together that were encoded by the same augmentation."""
        rests = [part.rest for part in parts if part.rest is not None]
        names = [part.names for part in parts if part.names is not None]
        return Start(
            torch.cat([part.latents for part in parts]),
            torch.cat(rests) if rests else None,
            torch.cat(names) if names else None,
        )
