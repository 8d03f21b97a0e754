"""Read pairs the user brings: index pairs, neighbour tables, time or transformation labels."""

import csv
import io
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike
from torch import Tensor

from transop.data.array_files import read_arrays, read_npy
from transop.data.arrays import to_numpy
from transop.errors import DataError
from transop.files import read_regular, reason_of
from transop.inputs import check_path
from transop.pairs.neighbours import MISSING, group_members, without_own
from transop.pairs.source import ListedPartners

_LOG = logging.getLogger(__name__)

Given = str | Path | ArrayLike | Tensor | Mapping[str, Any]

_LARGEST_CSV = 2**30  # bytes
# What a table, file or mapping may hold: the main entry and the group that goes with it.
_GROUP_OF = {"neighbours": None, "pairs": None, "time": "sequence", "transformation": "object"}


@dataclass(frozen=True)
class Split:
    """Which images of a data set belong to a split; positions are places in ``rows``."""

    rows: Int64[np.ndarray, " n"]
    n_dataset: int

    def positions(self, indices: Int64[np.ndarray, "..."]) -> Int64[np.ndarray, "..."]:
        """Turn data set indices into positions, -1 for images outside the split."""
        position = np.full(self.n_dataset, MISSING, dtype=np.int64)
        position[self.rows] = np.arange(len(self.rows))
        return np.where(indices == MISSING, MISSING, position[indices])

    def choose(self, n: int, name: str) -> slice | Int64[np.ndarray, " n"]:
        """Index the split's rows of a table with one per image of the split or the data set."""
        if n not in (len(self.rows), self.n_dataset):
            raise DataError(
                f"{name} has {n} rows; pass one for each of the {len(self.rows)} images of the "
                f"split or the {self.n_dataset} of the data set"
            )
        return slice(None) if n == len(self.rows) else self.rows


def read_given(given: Given, split: Split, n_neighbours: int) -> Tensor | ListedPartners:
    """Turn what the user brought into a neighbour table or listed partners within the split.

    docs/pairs.md has the names, and what an unnamed array is taken for.
    """
    name, values, group = _named(given, split)
    if name == "neighbours":
        return _from_table(values, split)
    if name == "pairs":
        return _from_pairs(values, split)
    coordinates = _as_coordinates(values, name)
    coordinates = coordinates[split.choose(len(coordinates), f"given: {name}")]
    groups = np.zeros(len(split.rows), dtype=np.int64)
    if group is not None:
        chosen = group[split.choose(len(group), f"given: {_GROUP_OF[name]}")]
        groups = np.unique(chosen, return_inverse=True)[1].astype(np.int64)
    return torch.from_numpy(nearest_coordinates(coordinates, groups, n_neighbours))


def nearest_coordinates(
    coordinates: Float[np.ndarray, "n f"], groups: Int64[np.ndarray, " n"], n_neighbours: int
) -> Int64[np.ndarray, "n k"]:
    """List the nearest other rows of the same group, for few coordinates in full precision.

    A tree, unlike a matrix product of squares, tells apart frames that differ by a millionth of
    the sequence's length.
    """
    from scipy.spatial import KDTree

    found = np.full((len(coordinates), n_neighbours), MISSING, dtype=np.int64)
    for members in group_members(groups):
        k = min(n_neighbours, len(members) - 1)
        if k == 0:
            continue
        _, near = KDTree(coordinates[members]).query(coordinates[members], k=k + 1)
        found[members, :k] = members[without_own(near, np.arange(len(members)))]
    return found


def _named(given: Given, split: Split) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Find out what was given: the name of the entry, its values and its group."""
    if isinstance(given, str | Path):
        given = _read_file(check_path("given", given))
    if not isinstance(given, Mapping):
        array = to_numpy(given, "given")
        return _guess_name(array, split), array, None
    known = [name for name in _GROUP_OF if name in given]
    allowed = {*known, *(str(_GROUP_OF[name]) for name in known)}
    unknown = set(given) - allowed
    if len(known) != 1 or unknown:
        raise DataError(
            f"given holds {', '.join(map(repr, given)) or 'nothing'}; it must hold one of "
            "'neighbours', 'pairs', 'time' (with 'sequence' if wanted) or 'transformation' "
            "(with 'object' if wanted)"
        )
    name = known[0]
    group = given.get(str(_GROUP_OF[name]))
    values = to_numpy(given[name], f"given[{name!r}]")
    return name, values, None if group is None else to_numpy(group, f"given[{_GROUP_OF[name]!r}]")


def _guess_name(array: np.ndarray, split: Split) -> str:
    """Name an unnamed array by its shape and type; refuse what could mean two things."""
    if array.ndim == 1:
        return "time"
    if array.ndim == 2 and np.issubdtype(array.dtype, np.floating):
        return "transformation"
    if array.ndim == 2 and array.shape[1] == 2:
        if len(array) in (len(split.rows), split.n_dataset):
            raise DataError(
                f"given has shape {array.shape}: that may be pairs or a table of two neighbours; "
                "name it, as in given={'pairs': ...} or given={'neighbours': ...}"
            )
        return "pairs"
    if array.ndim == 2:
        return "neighbours"
    raise DataError(
        f"given has shape {array.shape}; "
        "pass pairs (p, 2), neighbours (n, k) or one value per image"
    )


def _read_file(path: Path) -> Mapping[str, Any] | np.ndarray:
    readers: dict[str, Callable[[Path], Mapping[str, Any] | np.ndarray]] = {
        ".csv": _read_csv,
        ".npz": read_arrays,
        ".npy": read_npy,
    }
    if path.suffix not in readers:
        raise DataError(f"given='{path}' has an unknown ending; pass a .npz, .npy or .csv file")
    if not path.exists():
        raise DataError(f"given='{path}' does not exist; pass a .npz, .npy or .csv file")
    try:
        return readers[path.suffix](path)
    except (DataError, ValueError, csv.Error) as error:
        raise DataError(f"given='{path}' cannot be read: {error}") from None
    except OSError as error:
        raise DataError(f"given='{path}' cannot be read: {reason_of(error)}") from None


def _read_csv(path: Path) -> dict[str, Any]:
    """Read columns by their header: start and end, or time, or transformation..., with a group."""
    text = read_regular(path, most_bytes=_LARGEST_CSV).decode("utf-8-sig")  # Excel writes a mark
    names, *lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line] or [[]]
    names = [name.strip() for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"the column {repeated[0]!r} occurs twice; give every column its own name")
    if any(len(line) != len(names) for line in lines):
        raise ValueError("a line has more or fewer values than the header")
    columns: dict[str, list[str]] = {
        name: [line[place] for line in lines] for place, name in enumerate(names)
    }
    if set(names) == {"start", "end"}:
        return {"pairs": np.array([columns["start"], columns["end"]], dtype=np.int64).T}
    found: dict[str, Any] = {}
    moved = [name for name in names if name.startswith("transformation")]
    if moved:
        found["transformation"] = np.array([columns.pop(name) for name in moved], np.float64).T
    for name, values in columns.items():
        found[name] = np.array(values, dtype=np.float64 if name == "time" else np.str_)
    return found


def _from_table(values: np.ndarray, split: Split) -> Tensor:
    """Check a neighbour table and bring it to positions within the split."""
    if values.ndim != 2 or values.shape[1] == 0:
        raise DataError(f"given: neighbours has shape {values.shape}; it must be (images, k)")
    of_dataset = len(values) != len(split.rows)
    if of_dataset and not split.rows.max() < len(values) <= split.n_dataset:
        split.choose(len(values), "given: neighbours")  # raises, naming both sizes
    _check_indices(values, "neighbours", MISSING, len(values))
    table = values.astype(np.int64)
    if of_dataset:
        table = split.positions(table[split.rows])
    table = np.where(table == np.arange(len(table))[:, None], MISSING, table)
    # left-packed: missing entries (outside the split, or the image itself) go to the end
    order = np.argsort(table == MISSING, axis=1, kind="stable")
    return torch.from_numpy(np.take_along_axis(table, order, axis=1))


def _from_pairs(values: np.ndarray, split: Split) -> ListedPartners:
    """Check data set index pairs and keep those inside the split that join two images."""
    if values.ndim != 2 or values.shape[1] != 2:
        raise DataError(f"given: pairs has shape {values.shape}; it must be (pairs, 2)")
    _check_indices(values, "pairs", 0, split.n_dataset)
    pairs = values.astype(np.int64)
    inside = split.positions(pairs)
    keep = (inside != MISSING).all(1) & (inside[:, 0] != inside[:, 1])
    if not keep.all():
        message = "%d of %d given pairs lie outside the split or join an image to itself"
        _LOG.info(message, int((~keep).sum()), len(pairs))
    return ListedPartners.from_pairs(torch.from_numpy(inside[keep]), len(split.rows))


def _check_indices(indices: np.ndarray, name: str, least: int, n_images: int) -> None:
    if not np.issubdtype(indices.dtype, np.integer):
        raise DataError(f"given: {name} has type {indices.dtype}; image indices are integers")
    if indices.size and indices.min() < least:
        raise DataError(f"given: {name} contains {indices.min()}; image indices count from 0")
    if indices.size and indices.max() >= n_images:
        raise DataError(
            f"given: {name} points to image {indices.max()} but there are {n_images}; "
            f"use indices from 0 to {n_images - 1}"
        )


def _as_coordinates(values: np.ndarray, name: str) -> Float[np.ndarray, "n f"]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"given: {name} must be numbers ({error})") from error
    if numbers.size == 0:
        raise DataError(f"given: {name} holds no numbers; pass one row for each image")
    numbers = numbers.reshape(len(numbers), -1) if numbers.ndim else numbers.reshape(1, 1)
    if not np.isfinite(numbers).all():
        raise DataError(f"given: {name} contains a value that is not finite")
    return numbers
