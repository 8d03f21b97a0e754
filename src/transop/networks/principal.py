"""The principal directions of large latents: operators act along them and nowhere else."""

from __future__ import annotations

import logging

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.errors import UserError

logger = logging.getLogger(__name__)

_MOST_WHOLE = 128  # latents up to this many dimensions are used whole
_SAME = 1e-10  # share of the squared length below which latents do not differ
_MOST_DIRECTIONS = 128  # chosen by themselves; more can be asked for


class PrincipalDirections(nn.Module):
    """A linear bottleneck: coordinates along k orthonormal directions, and the rest.

    Attributes:
        centre: mean of the latents, length w.
        directions: orthonormal rows, (k, w), most important first.
        explained: share of the variance along them.
    """

    centre: Tensor
    directions: Tensor

    def __init__(self, n_directions: int, n_whole: int, explained: float) -> None:
        super().__init__()
        self.explained = explained
        self.register_buffer("centre", torch.zeros(n_whole))
        self.register_buffer("directions", torch.zeros(n_directions, n_whole))

    @property
    def n_directions(self) -> int:
        """k, the number of directions."""
        return len(self.directions)

    @classmethod
    def choose(
        cls, latents: Float[Tensor, "n w"], *, dimension: int | None, explained: float
    ) -> PrincipalDirections | None:
        """Find the directions along which latents vary most; None if they are used whole.

        Args:
            latents: examples.
            dimension: k; chosen by ``explained`` if left out, at most 128. Latents that have no
                more dimensions are used whole.
            explained: share of the variance to cover.
        """
        n, width = latents.shape
        if width <= (_MOST_WHOLE if dimension is None else dimension):
            return None
        wanted = min(2 * (dimension or 1), width)
        if n <= max(wanted, 2):
            raise UserError(
                f"{n} images are too few to find the principal directions of latents with {width} "
                f"dimensions; pass more than {max(wanted, 2)}, better a thousand"
            )
        centre = latents.mean(0)
        values, vectors = _principal(latents - centre)
        total = values.sum().clamp_min(torch.finfo(values.dtype).tiny)
        shares = (values / total).cumsum(0)
        if float(values[0]) <= _SAME * n * max(float(centre.square().sum()), 1e-30):
            raise UserError("all latents are the same; the encoder tells these images not apart")
        alive = int((values > 1e-10 * values[0]).sum())
        k = int((shares < explained).sum()) + 1 if dimension is None else dimension
        k = min(k, alive, _MOST_DIRECTIONS if dimension is None else k)
        found = cls(k, width, round(float(shares[k - 1]), 4))
        found.centre.copy_(centre)
        found.directions.copy_(vectors[:k])
        logger.info(
            "operators act on %d principal directions of %d; they explain %.1f %% of the variance",
            k,
            width,
            100 * found.explained,
        )
        return found.to(latents.device)

    def coordinates(self, latents: Float[Tensor, "b w"]) -> Float[Tensor, "b k"]:
        """Measure latents along the directions."""
        return (latents - self.centre) @ self.directions.mT

    def rest(self, latents: Float[Tensor, "b w"]) -> Float[Tensor, "b w"]:
        """Take away what lies along the directions."""
        away = latents - self.centre
        return away - (away @ self.directions.mT) @ self.directions

    def whole(
        self, coordinates: Float[Tensor, "b k"], rest: Float[Tensor, "b w"] | None
    ) -> Float[Tensor, "b w"]:
        """Put latents together again; an unknown rest is the average one."""
        latents = torch.addmm(self.centre, coordinates, self.directions)
        return latents if rest is None else latents + rest


def _principal(away: Float[Tensor, "n w"]) -> tuple[Tensor, Tensor]:
    """Give variances and directions, largest first, from the smaller of two Gram matrices."""
    exact = away.double()
    n, width = exact.shape
    if width <= n:
        values, vectors = torch.linalg.eigh(exact.mT @ exact)
        return values.flip(0).clamp_min(0), vectors.flip(1).mT.float()
    values, rows = torch.linalg.eigh(exact @ exact.mT)
    values, rows = values.flip(0).clamp_min(0), rows.flip(1)
    lengths = values.sqrt().clamp_min(1e-150)
    return values, (rows / lengths).mT.matmul(exact).float()
