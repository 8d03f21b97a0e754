"""Random walks along the operators, in latent space, and the randomness behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import get_worker_info

from transop.operators import laplace_from_uniform

# No sensible coefficient or scaled latent is beyond this; scales read that far out may overflow.
_FARTHEST = 1e4

Scales = Callable[[Tensor], Tensor]  # gives the Laplace scale of every coefficient at a point
Move = Callable[[Tensor, Tensor], Tensor]  # takes coefficients and points, as `transport`


def walk(
    move: Move, scales: Scales, latents: Float[Tensor, "b d"], uniform: Float[Tensor, "#b s m"]
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b s m"]]:
    """Take random steps, asking at every one how far the operators may go from there.

    A step that would lead out of all bounds is not taken. ``uniform`` holds draws from [0, 1) for
    every step and operator; one row serves all points. What is returned are the ends of the walks
    and the coefficients of every step.
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
    move: Move, latents: Float[Tensor, "b d"], coefficients: Float[Tensor, "b s m"]
) -> Float[Tensor, "b d"]:
    """Take the given steps one after another."""
    for step in range(coefficients.shape[1]):
        latents = move(coefficients[:, step], latents)
    return latents


class Draws:
    """Draws from a generator, or from torch's global randomness if there is none.

    Workers of a DataLoader all hold a copy of one generator; each combines it with its own seed.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self.generator = generator
        self._worker: tuple[int, torch.Generator] | None = None

    def uniform(self, *shape: int, like: Tensor) -> Tensor:
        """Draw numbers from [0, 1), of the type and on the device of another tensor."""
        generator = self._own_generator()
        if generator is None:
            return torch.rand(shape, dtype=like.dtype, device=like.device)
        drawn = torch.rand(shape, generator=generator, dtype=like.dtype, device=generator.device)
        return drawn.to(like.device)

    def _own_generator(self) -> torch.Generator | None:
        if self.generator is None or torch.compiler.is_compiling():
            return self.generator
        info = get_worker_info()
        if info is None:
            return self.generator
        if self._worker is None or self._worker[0] != info.seed:
            seed = (self.generator.initial_seed() + info.seed) % 2**63
            self._worker = (info.seed, torch.Generator().manual_seed(seed))
        return self._worker[1]

    def __getstate__(self) -> dict[str, Any]:
        """Write the generator down as numbers: a DataLoader's new process cannot share it."""
        if self.generator is None:
            return {"generator": None}
        numbers = self.generator.get_state().numpy().tobytes()
        return {"generator": (str(self.generator.device), numbers)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the generator again from its numbers."""
        self.generator, self._worker = None, None
        if state["generator"] is not None:
            device, numbers = state["generator"]
            self.generator = torch.Generator(device)
            self.generator.set_state(torch.frombuffer(bytearray(numbers), dtype=torch.uint8))
