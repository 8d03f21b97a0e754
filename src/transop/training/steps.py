"""What a step works on, and how fast it learns: functions of the seed, phase and step alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.optim import Optimizer

from transop.pairs import PairSource
from transop.training.session import Session

_WARM_UP = 0.1  # share of the steps on which one-cycle rises
_START_DIVISOR = 25.0
_END_DIVISOR = 25.0e4
_HIGH_MOMENTUM, _LOW_MOMENTUM = 0.95, 0.85


class Rows:
    """The rows of a table, each visited once an epoch."""

    def __init__(self, rows: Int64[Tensor, " n"]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def epoch(
        self, generator: torch.Generator, batch_size: int
    ) -> Iterator[tuple[Int64[Tensor, " b"]]]:
        """Yield batches of rows in random order."""
        shuffled = self._rows[torch.randperm(len(self._rows), generator=generator)]
        return ((batch,) for batch in torch.split(shuffled, batch_size))


Items = Rows | PairSource


class Order:
    """Visits every item once an epoch; any epoch can be asked for by its number."""

    def __init__(self, session: Session, phase: str, items: Items, batch_size: int) -> None:
        self._session, self._phase = session, phase
        self._items, self._batch_size = items, batch_size
        self._epoch = -1
        self._batches: list[tuple[Tensor, ...]] = []

    def at(self, step: int) -> tuple[Int64[Tensor, " b"], ...]:
        """Give the batch of one step; with several devices, this one's share of it."""
        epoch, position = divmod(step, max(1, len(self._items) // self._batch_size))
        if epoch != self._epoch:
            generator = self._session.generator(self._phase, "order", epoch)
            self._batches = list(self._items.epoch(generator, self._batch_size))
            self._epoch = epoch
        ranks = self._session.ranks
        share = slice(ranks.rank, None, ranks.n_ranks)
        return tuple(part[share] for part in self._batches[position])


def steps_in(epochs: float, n_items: int, batch_size: int) -> tuple[int, int]:
    """Count the steps of an epoch and of all of them; a last partial batch is left out."""
    per_epoch = max(1, n_items // batch_size)
    return per_epoch, math.ceil(epochs * per_epoch)


def schedule_rate(
    optimiser: Optimizer, schedule: str, peak: float, step: float, n_steps: int
) -> float:
    """Give the learning rate of a step, which is at most ``peak``.

    ``"constant"``, ``"cosine"`` (falls to zero) or ``"one-cycle"``: it rises for a tenth of the
    steps and falls to almost nothing, while Adam's first momentum does the opposite.
    """
    if schedule == "cosine":
        return _blend(peak, 0.0, step / max(1, n_steps))
    if schedule == "one-cycle":
        rate, momentum = _one_cycle(peak, step, n_steps)
        for group in optimiser.param_groups:
            group["betas"] = (momentum, group["betas"][1])
        return rate
    return peak


def _one_cycle(peak: float, step: float, n_steps: int) -> tuple[float, float]:
    top = _WARM_UP * n_steps - 1
    if step <= top:
        part = step / top if top > 0 else 1.0
        return (
            _blend(peak / _START_DIVISOR, peak, part),
            _blend(_HIGH_MOMENTUM, _LOW_MOMENTUM, part),
        )
    part = (step - top) / max(1.0, n_steps - 1 - top)
    return _blend(peak, peak / _END_DIVISOR, part), _blend(_LOW_MOMENTUM, _HIGH_MOMENTUM, part)


def _blend(start: float, end: float, part: float) -> float:
    """Go from start to end along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * min(1.0, part))) / 2
