"""Which rows a step works on: a function of the seed, the phase and the step alone."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int64

from transop.training.session import Session


class BatchOrder:
    """Shuffles rows anew each epoch; the order of an epoch can be had without those before it."""

    def __init__(
        self, session: Session, phase: str, rows: Int64[np.ndarray, " n"], batch_size: int
    ) -> None:
        self._session, self._phase = session, phase
        self._rows, self._batch_size = rows, batch_size
        self.per_epoch = max(1, len(rows) // batch_size)
        self._epoch = -1
        self._shuffled = rows

    def rows(self, step: int) -> Int64[np.ndarray, " b"]:
        """Give the rows of one step; with several devices, this one's share of them."""
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            generator = self._session.generator(self._phase, "order", epoch)
            permutation = torch.randperm(len(self._rows), generator=generator)
            self._shuffled, self._epoch = self._rows[permutation.numpy()], epoch
        batch = self._shuffled[position * self._batch_size : (position + 1) * self._batch_size]
        ranks = self._session.ranks
        return batch[ranks.rank :: ranks.n_ranks]
