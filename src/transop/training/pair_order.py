"""Which pairs a step works on: a function of the seed, the phase and the step alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

from transop.training.session import Session


@runtime_checkable
class Pairs(Protocol):
    """Anything that can visit its pairs in random order, such as a `PairSource`."""

    def __len__(self) -> int:
        """Count the pairs of an epoch."""
        ...

    def epoch(
        self, generator: torch.Generator, batch_size: int
    ) -> Iterator[tuple[Int64[Tensor, " b"], Int64[Tensor, " b"]]]:
        """Yield batches of positions: starts, and an end for each."""
        ...

    def around(
        self, positions: Int64[Tensor, " b"], generator: torch.Generator
    ) -> Int64[Tensor, "b k"]:
        """Name images that are like each of some images, these among them."""
        ...


class PairOrder:
    """Visits every pair once an epoch; any epoch can be asked for by its number."""

    def __init__(self, session: Session, phase: str, pairs: Pairs, batch_size: int) -> None:
        self._session, self._phase = session, phase
        self._pairs, self._batch_size = pairs, batch_size
        self.per_epoch = max(1, len(pairs) // batch_size)
        self._epoch = -1
        self._batches: list[tuple[Tensor, Tensor]] = []

    def rows(self, step: int) -> tuple[Int64[Tensor, " b"], Int64[Tensor, " b"]]:
        """Give the positions of starts and ends of one step; on several devices a share."""
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            generator = self._session.generator(self._phase, "order", epoch)
            self._batches = list(self._pairs.epoch(generator, self._batch_size))
            self._epoch = epoch
        starts, ends = self._batches[position]
        ranks = self._session.ranks
        share = slice(ranks.rank, None, ranks.n_ranks)
        return starts[share], ends[share]
