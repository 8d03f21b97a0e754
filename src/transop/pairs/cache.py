"""Keep features and neighbour tables on disk, under a name made from what they depend on."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from transop.artifacts.mapped import Notes, map_rows, write_rows
from transop.files import reason_of
from transop.pairs.features import collect_rows
from transop.sharing import ALONE, Ranks

_LOG = logging.getLogger(__name__)
_FORMAT = 2  # raise when features or neighbours of the same settings would come out differently


@dataclass(frozen=True)
class PairCache:
    """A folder of tables, each computed once per data set and settings.

    Attributes:
        folder: where they are.
        ranks: the processes that compute together: what one of them lacks, all compute.
    """

    folder: Path
    ranks: Ranks = ALONE

    def fetch(
        self,
        kind: str,
        settings: dict[str, Any] | None,
        n_rows: int,
        compute: Callable[[], Iterator[Shaped[Tensor, "b f"]]],
        notes: Callable[[], Notes] = dict,
    ) -> tuple[Shaped[Tensor, "n f"], Notes]:
        """Map a table from disk, or compute and store it; a damaged one is computed again.

        Args:
            kind: what the table is, e.g. ``"neighbours"``; part of its name.
            settings: everything the table depends on, as JSON values; None computes without
                storing, for what cannot be named (a user's function).
            n_rows: its length.
            compute: yields its rows in order, a block at a time.
            notes: called after the last block; what to keep beside the table, as JSON values.

        Returns:
            The table and the notes.
        """
        if settings is None:
            return collect_rows(compute(), n_rows), notes()
        folder = self.folder / f"{kind}-{fingerprint(settings)}"
        stored = map_rows(folder)
        if not self.ranks.all(stored is not None):
            stored = self._compute(folder, compute, notes)
        if self.ranks.all(stored is not None) and stored is not None:
            return torch.from_numpy(stored[0]), stored[1]
        return collect_rows(compute(), n_rows), notes()

    def _compute(
        self,
        folder: Path,
        compute: Callable[[], Iterator[Tensor]],
        notes: Callable[[], Notes],
    ) -> Any:
        """Compute a table with all processes; one of them writes it, then all map it."""
        blocks = compute()
        try:
            if self.ranks.writes:
                write_rows(folder, (block.contiguous().numpy() for block in blocks), notes)
        except OSError as error:  # a full disk costs time later, not the run now
            _LOG.warning("cannot store %s (%s); going on without", folder, reason_of(error))
        for _ in blocks:  # whoever does not write still computes its share
            pass
        self.ranks.wait()
        return map_rows(folder)


def fingerprint(settings: dict[str, Any]) -> str:
    """Condense settings to 24 hexadecimal digits; any change gives others."""
    text = json.dumps({"format": _FORMAT, **settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
