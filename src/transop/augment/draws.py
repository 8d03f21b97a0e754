"""Random numbers that differ between DataLoader workers and survive a change of process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info


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
