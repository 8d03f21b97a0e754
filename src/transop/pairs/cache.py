"""Keep features and neighbour tables on disk, under a name made from what they depend on."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor

from transop.artifacts import load_state, save_state
from transop.errors import ArtifactError
from transop.pairs.features import collect_rows
from transop.sharing import ALONE, Ranks
from transop.tables import map_table, write_table

_LOG = logging.getLogger(__name__)
_Stored = TypeVar("_Stored")
_FORMAT = 1  # raise when features or neighbours of the same settings would come out differently


@dataclass(frozen=True)
class PairCache:
    """A folder of results, each computed once per data set and settings.

    Attributes:
        folder: where they are.
        ranks: the processes that compute together: what one of them lacks, all compute.
    """

    folder: Path
    ranks: Ranks = ALONE

    def fetch(
        self, kind: str, settings: dict[str, Any] | None, compute: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Read a result, or compute and store it; a damaged file is computed again.

        Args:
            kind: what the result is, e.g. ``"neighbours"``; part of the file name.
            settings: everything the result depends on, as JSON values; None computes
                without storing, for what cannot be named (a user's function).
            compute: makes the result, tensors and plain values by name.
        """
        if settings is None:
            return compute()
        path = self._path(kind, settings)
        stored = _read(path, kind, lambda: load_state(path, kind=kind))
        if self.ranks.all(stored is not None) and stored is not None:
            return stored
        computed = compute()
        if self.ranks.writes:
            try:
                save_state(path, computed, kind=kind)
            except OSError as error:  # a full disk costs time later, not the run now
                _LOG.warning("cannot store %s in %s (%s); going on without", kind, path, error)
        return computed

    def fetch_table(
        self,
        kind: str,
        settings: dict[str, Any] | None,
        n_rows: int,
        compute: Callable[[], Iterator[Float[Tensor, "b f"]]],
    ) -> Float[Tensor, "n f"]:
        """Map a table of features from disk, computing it block by block if need be.

        Args:
            kind: what the table is; part of the file name.
            settings: everything it depends on; None keeps it in memory, unnamed.
            n_rows: its length.
            compute: yields its rows in order.
        """
        if settings is None:
            return collect_rows(compute(), n_rows)
        path = self._path(kind, settings)
        stored = _read(path, kind, lambda: map_table(path, kind=kind))
        if not self.ranks.all(stored is not None):
            blocks = compute()
            try:
                if self.ranks.writes:
                    write_table(path, blocks, n_rows, kind=kind)
            except OSError as error:
                _LOG.warning("cannot store %s in %s (%s); going on without", kind, path, error)
                if self.ranks.n_ranks == 1:
                    return collect_rows(compute(), n_rows)
            for _ in blocks:  # whoever does not write still computes its share
                pass
            self.ranks.wait()
            stored = _read(path, kind, lambda: map_table(path, kind=kind))
        if self.ranks.all(stored is not None) and stored is not None:
            return stored
        return collect_rows(compute(), n_rows)

    def _path(self, kind: str, settings: dict[str, Any]) -> Path:
        return self.folder / f"{kind}-{fingerprint(settings)}.safetensors"


def _read(path: Path, kind: str, read: Callable[[], _Stored]) -> _Stored | None:
    """Read a stored result; None if there is none or a damaged one."""
    if not path.exists():
        return None
    try:
        stored = read()
    except ArtifactError as error:
        _LOG.warning("%s; computing the %s again", error, kind)
        return None
    _LOG.info("%s read from %s", kind, path)
    return stored


def fingerprint(settings: dict[str, Any]) -> str:
    """Condense settings to 24 hexadecimal digits; any change gives others."""
    text = json.dumps({"format": _FORMAT, **settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
