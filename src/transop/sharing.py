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
# What tables may hold; processes tell each other by the position in this list.
_KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8)


@dataclass(frozen=True)
class Ranks:
    """This process and how many there are; they call the same methods in the same order.

    Attributes:
        rank: the number of this process, from 0.
        n_ranks: how many there are.
        device: where tensors must be for the processes to exchange them.
    """

    rank: int = 0
    n_ranks: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def in_turns(
        self, items: Sequence[_Item], compute: Callable[[_Item], Tensor]
    ) -> Iterator[Tensor]:
        """Compute something for every item, each on one process, and yield all of it in order."""
        own = (compute(item) for item in items[self.rank :: self.n_ranks])
        return self.collect(own, len(items))

    def collect(self, own: Iterator[Tensor], n_items: int) -> Iterator[Tensor]:
        """Yield the results of all processes in order, given those of this one.

        Args:
            own: tables of rows, for the items of this process: every n-th, from its rank.
            n_items: of all processes.
        """
        if self.n_ranks == 1:
            yield from own
            return
        for first in range(0, n_items, self.n_ranks):
            result = next(own) if first + self.rank < n_items else None
            yield from self.exchange(result)[: n_items - first]

    def exchange(self, rows: Tensor | None) -> list[Tensor]:
        """Give every process the rows of all of them.

        Args:
            rows: a table; tables may differ in length. None if this process has none.

        Returns:
            One table per process, in the order of their ranks.
        """
        if self.n_ranks == 1:
            return [] if rows is None else [rows]
        facts = [0, 0, 0] if rows is None else [*rows.shape, _KINDS.index(rows.dtype)]
        everyone = torch.stack(self._gather(torch.tensor(facts)))
        longest, columns, kind = everyone.max(0).values.tolist()
        padded = torch.zeros(longest, columns, dtype=_KINDS[kind])
        if rows is not None:
            padded[: len(rows)] = rows
        home = self.device if rows is None else rows.device
        lengths = everyone[:, 0].tolist()
        tables = self._gather(padded)
        return [table[:n].to(home) for table, n in zip(tables, lengths, strict=True)]

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
        return all(bool(flag) for flag in self._gather(torch.tensor(float(statement))))

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

    def _gather(self, value: Tensor) -> list[Tensor]:
        sent = value.to(self.device).contiguous()
        received = [torch.empty_like(sent) for _ in range(self.n_ranks)]
        torch.distributed.all_gather(received, sent)
        return [tensor.cpu() for tensor in received]


ALONE = Ranks()


def is_launched() -> bool:
    """Say whether torchrun started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_first_process() -> bool:
    """Say whether this process is the one that writes and talks to the user."""
    return not is_launched() or int(os.environ.get("RANK", "0")) == 0
