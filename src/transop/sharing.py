"""Share long computations among the processes of a data-parallel run.

Alone, everything here does what a plain loop would; so packages below the training need not know
whether there are other processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Ranks:
    """This process and how many there are; they call the same methods in the same order."""

    rank: int = 0  # the number of this process, from 0
    n_ranks: int = 1
    # Where tensors must be for the processes to exchange them.
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def in_turns(
        self, items: Sequence[_Item], compute: Callable[[_Item], Tensor]
    ) -> Iterator[Tensor]:
        """Compute something for every item, each on one process, and yield all of it in order."""
        own = (compute(item) for item in items[self.rank :: self.n_ranks])
        return self.collect(own, len(items))

    def collect(self, own: Iterator[Tensor], n_items: int) -> Iterator[Tensor]:
        """Yield the results for all items in order, given those for every n-th, from its rank."""
        if self.n_ranks == 1:
            yield from own
            return
        for _ in range(0, n_items, self.n_ranks):
            yield from self.exchange(next(own, None))

    def exchange(self, rows: Tensor | None) -> list[Tensor]:
        """Give every process the rows of all that have some, in the order of their ranks."""
        if self.n_ranks == 1:
            return [] if rows is None else [rows]
        tables: list[Tensor | None] = [None] * self.n_ranks
        torch.distributed.all_gather_object(tables, None if rows is None else rows.cpu())
        home = self.device if rows is None else rows.device
        return [table.to(home) for table in tables if table is not None]

    def interleave(self, rows: Shaped[Tensor, "r c"]) -> Shaped[Tensor, "n c"]:
        """Put a batch together of which every process holds every n-th row, from its rank."""
        if self.n_ranks == 1:
            return rows
        parts = self.exchange(rows)
        whole = rows.new_empty(sum(len(part) for part in parts), rows.shape[1])
        for rank, part in enumerate(parts):
            whole[rank :: self.n_ranks] = part
        return whole

    def all(self, statement: bool) -> bool:
        """Say whether a statement is true on every process, so that all of them act alike."""
        if self.n_ranks == 1:
            return statement
        n_true = torch.tensor(float(statement), device=self.device)
        torch.distributed.all_reduce(n_true)
        return int(n_true) == self.n_ranks

    @property
    def writes(self) -> bool:
        """Whether this process writes files that all processes of its machine read."""
        return self.n_ranks == 1 or int(os.environ.get("LOCAL_RANK", self.rank)) == 0

    def wait(self) -> None:
        """Wait until all processes have come here."""
        self.all(True)

    def own_share(self, n_items: int) -> float:
        """Give the weight of this process's mean over its rows of a batch.

        Gradients are averaged over processes with equal weights; where the rows of a batch
        cannot be shared equally, this makes up for it. The average weight is one.
        """
        own = len(range(self.rank, n_items, self.n_ranks))
        return own * self.n_ranks / n_items


ALONE = Ranks()


def is_launched() -> bool:
    """Say whether torchrun started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_first_process() -> bool:
    """Say whether this process is the one that writes and talks to the user."""
    return not is_launched() or int(os.environ.get("RANK", "0")) == 0
