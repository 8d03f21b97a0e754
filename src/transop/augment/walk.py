"""Random walks along the operators, in latent space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from transop.operators import laplace_from_uniform

# No sensible coefficient or scaled latent is beyond this; scales read that far out may overflow.
_FARTHEST = 1e4

Scales = Callable[[Tensor], Tensor]


class Mover(Protocol):
    """Carries points along the flow, as ``transport`` or ``ManifoldAutoencoder.transport``."""

    def __call__(
        self, coefficients: Float[Tensor, "b m"], latents: Float[Tensor, "b d"]
    ) -> Float[Tensor, "b d"]:
        """Move every point by its row of coefficients."""
        ...


def walk(
    move: Mover,
    scales: Scales,
    latents: Float[Tensor, "b d"],
    uniform: Float[Tensor, "#b s m"],
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b s m"]]:
    """Take random steps, asking at every one how far the operators may go from there.

    A step that would lead out of all bounds is not taken.

    Args:
        move: carries points along the flow.
        scales: gives the Laplace scale of every coefficient at a point.
        latents: where to start, in scaled units.
        uniform: draws from [0, 1), one per step and operator; one row serves all points.

    Returns:
        Where the walks end, and the coefficients of every step.
    """
    taken = []
    for step in range(uniform.shape[1]):
        wanted = laplace_from_uniform(scales(latents), uniform[:, step])
        sane = (wanted.abs() < _FARTHEST).all(-1, keepdim=True)  # False for NaN too
        coefficients = torch.where(sane, wanted, torch.zeros_like(wanted))
        there = move(coefficients, latents)
        fine = (there.abs() < _FARTHEST).all(-1, keepdim=True)
        latents = torch.where(fine, there, latents)
        taken.append(torch.where(fine, coefficients, torch.zeros_like(coefficients)))
    return latents, torch.stack(taken, 1)


def retrace(
    move: Mover, latents: Float[Tensor, "b d"], coefficients: Float[Tensor, "b s m"]
) -> Float[Tensor, "b d"]:
    """Take the given steps one after another."""
    for step in range(coefficients.shape[1]):
        latents = move(coefficients[:, step], latents)
    return latents
