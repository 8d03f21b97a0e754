"""Keep features and neighbour tables on disk, under a name made from what they depend on."""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transop.artifacts import load_state, save_state
from transop.errors import ArtifactError

_LOG = logging.getLogger(__name__)
_FORMAT = 1  # raise when features or neighbours of the same settings would come out differently


@dataclass(frozen=True)
class PairCache:
    """A folder of results, each computed once per data set and settings."""

    folder: Path

    def fetch(
        self, kind: str, settings: dict[str, Any] | None, compute: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Read a result, or compute and store it; a damaged file is computed again.

        Args:
            kind: what the result is, e.g. ``"features"``; part of the file name.
            settings: everything the result depends on, as JSON values; None computes
                without storing, for what cannot be named (a user's function).
            compute: makes the result, tensors and plain values by name.
        """
        if settings is None:
            return compute()
        path = self.folder / f"{kind}-{fingerprint(settings)}.safetensors"
        if path.exists():
            try:
                stored = load_state(path, kind=kind)
                _LOG.info("%s read from %s", kind, path)
                return stored
            except ArtifactError as error:
                _LOG.warning("%s; computing the %s again", error, kind)
        computed = compute()
        try:
            save_state(path, computed, kind=kind)
        except OSError as error:  # a full or read-only disk costs time later, not the run now
            _LOG.warning("cannot store %s in %s (%s); going on without", kind, path, error)
        return computed


def fingerprint(settings: dict[str, Any]) -> str:
    """Condense settings to 24 hexadecimal digits; any change gives others."""
    text = json.dumps({"format": _FORMAT, **settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
