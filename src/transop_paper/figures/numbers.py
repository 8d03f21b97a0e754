"""What a figure is drawn from: arrays and facts, on disk before anything is drawn."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from transop.artifacts import read_json, write_atomically, write_json
from transop.errors import ArtifactError
from transop.plotting import About

_SMALL = 400  # arrays up to so many entries stand in the JSON file too, for readers and scripts


@dataclass(frozen=True)
class Numbers:
    """The result of a figure's computation.

    Attributes:
        arrays: stored as NPZ.
        facts: plain values, stored as JSON: labels, counts, headline results.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        """Give an array by name."""
        return self.arrays[name]

    def save(self, stem: Path, about: About | None = None) -> list[Path]:
        """Write ``stem.npz`` and ``stem.json``, each in one step.

        Args:
            stem: the path without suffix.
            about: the words of the picture; the report reads them from the JSON file.
        """
        buffer = BytesIO()
        arrays: dict[str, Any] = self.arrays
        np.savez_compressed(buffer, **arrays)
        paths = [stem.with_name(stem.name + suffix) for suffix in (".npz", ".json")]
        write_atomically(paths[0], buffer.getvalue())
        shown = {k: v.tolist() for k, v in self.arrays.items() if _is_small(v)}
        json.dumps(self.facts)  # a fact that is not plain is our mistake: say so before writing
        words = {} if about is None else {"about": asdict(about)}
        write_json(paths[1], {**words, "facts": self.facts, "arrays": shown})
        return paths

    @classmethod
    def load(cls, stem: Path) -> Numbers:
        """Read what ``save`` wrote."""
        path = stem.with_name(stem.name + ".npz")
        facts = read_json(stem.with_name(stem.name + ".json"))["facts"]
        try:
            with np.load(path, allow_pickle=False) as stored:
                return cls(dict(stored), facts)
        except (OSError, ValueError, EOFError) as error:
            raise ArtifactError(f"'{path}' is not a readable NPZ file: {error}") from None


def _is_small(array: np.ndarray) -> bool:
    return array.size <= _SMALL and array.dtype.kind in "fiub"
