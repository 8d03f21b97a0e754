"""Turn a collection of image files, from a folder or a zip, into a data set.

Files are decoded a batch at a time. Small collections are kept in memory; larger ones are written
once to a memory-mapped file in the cache and reopened from there. Images are laid out split by
split, so that taking a split of a memory map is a view and not a copy.
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import IO

import numpy as np
from jaxtyping import Int64

from transop.data.dataset import SPLIT_NAMES, DatasetMeta, ImageDataset
from transop.data.picture import Header, UnreadablePicture, read_header, read_picture
from transop.data.request import DatasetRequest
from transop.data.splits import random_order, split_sizes
from transop.errors import DataError
from transop.progress import Progress

_log = logging.getLogger(__name__)

IN_MEMORY_IMAGES = 2_000
_LISTED = 10
_LOOKED_AT = 2_000
_BATCH = 512

Decoded = np.ndarray | str  # the pixels, or the reason why there are none

_SPLIT_FOLDERS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Entry:
    """One image file of a collection.

    Attributes:
        path: relative to the collection; its folders are split and class names.
        stamp: changes when the file does (size and time), for the cache key.
        open: opens the bytes.
    """

    path: PurePosixPath
    stamp: str
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Plan:
    """Entries in their final order, what each is, and the shape all will have."""

    entries: list[Entry]
    labels: Int64[np.ndarray, " n"] | None
    class_names: tuple[str, ...] | None
    split_of: list[str]
    size: int
    channels: int


def dataset_from_pictures(
    entries: Sequence[Entry], name: str, source: str, request: DatasetRequest
) -> ImageDataset:
    """Decode a collection of image files into a data set.

    Subfolders are classes; first-level subfolders called train, validation (or val) and test are
    splits. Unreadable files are listed in the log and left out.

    Args:
        entries: the files.
        name: what to call the data set.
        source: where it is, in words.
        request: wanted size and channels, seed and cache.

    Returns:
        The images; from the cache if this collection was decoded before.
    """
    plan = _plan(sorted(entries, key=lambda entry: str(entry.path)), name, request)
    if len(plan.entries) <= IN_MEMORY_IMAGES:
        return _in_memory(plan, name, source, request.progress)
    from transop.data.picture_cache import memory_mapped  # builds on this file

    return memory_mapped(plan, name, source, request)


def _plan(entries: list[Entry], name: str, request: DatasetRequest) -> Plan:
    """Decide labels, splits, size and order from the names and a look at the headers."""
    if not entries:
        raise DataError(f"{name!r} contains no image files; pass a folder or zip with images")
    given, class_of = _folders(entries)
    class_names = tuple(sorted({label for label in class_of if label is not None})) or None
    labels = None
    if class_names is not None and None not in class_of:
        number = {label: index for index, label in enumerate(class_names)}
        labels = np.array([number[label] for label in class_of if label is not None], np.int64)
    elif class_names is not None:
        _log.warning(
            "%r has images both in its root and in subfolders: taking it as unlabelled", name
        )
    split_of = given or _random_split_of(len(entries), labels, request.seed)
    order = sorted(range(len(entries)), key=lambda row: SPLIT_NAMES.index(split_of[row]))
    size, channels = _shape(entries, name, request)
    return Plan(
        entries=[entries[row] for row in order],
        labels=None if labels is None else labels[order],
        class_names=None if labels is None else class_names,
        split_of=[split_of[row] for row in order],
        size=size,
        channels=channels,
    )


def _folders(entries: Sequence[Entry]) -> tuple[list[str] | None, list[str | None]]:
    """Read split (or ``None``) and class names out of the folders of each entry."""
    parts = [entry.path.parts for entry in entries]
    while len({path[0] for path in parts}) == 1 and all(len(path) > 2 for path in parts):
        parts = [path[1:] for path in parts]  # one folder around everything says nothing
    first = {path[0].lower() for path in parts}
    splits = None
    if all(len(path) > 1 for path in parts) and first <= set(_SPLIT_FOLDERS) and len(first) > 1:
        splits = [_SPLIT_FOLDERS[path[0].lower()] for path in parts]
        parts = [path[1:] for path in parts]
    if splits is not None and "train" not in splits:
        splits = None
    return splits, [path[0] if len(path) > 1 else None for path in parts]


def _random_split_of(n: int, labels: Int64[np.ndarray, " n"] | None, seed: int) -> list[str]:
    names = np.repeat(list(split_sizes(n)), list(split_sizes(n).values()))
    split_of = np.empty(n, dtype=object)
    split_of[random_order(n, labels, seed)] = names
    return [str(split) for split in split_of]


def _shape(entries: Sequence[Entry], name: str, request: DatasetRequest) -> tuple[int, int]:
    """Choose image size and channels: as asked, else from the headers of evenly spaced files."""
    if request.image_size is not None and request.channels is not None:
        return request.image_size, request.channels
    headers = _headers(entries[:: -(-len(entries) // _LOOKED_AT)])
    if not headers:
        raise DataError(f"{name!r}: none of its {len(entries)} files is a readable image")
    sides = {header.shorter_side for header in headers}
    common = sides.pop() if len(sides) == 1 and all(h.is_square for h in headers) else None
    if common is None or not 16 <= common <= 128:
        median = int(np.median([header.shorter_side for header in headers]))
        common = max(16, min(64, median))
    size = request.image_size or common
    channels = request.channels or (1 if all(header.is_grey for header in headers) else 3)
    _log.info("%r: images become %d x %d with %d channel(s)", name, size, size, channels)
    return size, channels


def _headers(entries: Sequence[Entry]) -> list[Header]:
    """Read the headers that can be read; decoding will list the others."""
    headers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in entries:
            with contextlib.suppress(UnreadablePicture, OSError), entry.open() as stream:
                headers.append(read_header(stream))
    return headers


def decode_in_batches(plan: Plan, name: str, progress: Progress) -> Iterator[list[Decoded]]:
    """Decode the entries of a plan in order, a batch at a time, on a few threads.

    Yields:
        For each entry its pixels, or the reason why it has none.
    """

    def decode(entry: Entry) -> Decoded:
        try:
            with entry.open() as stream:
                return read_picture(stream, plan.size, plan.channels)
        except (UnreadablePicture, OSError) as problem:
            return f"{entry.path}: {problem}"

    starts = range(0, len(plan.entries), _BATCH)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for start in progress(starts, f"reading images of {name}", len(starts)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's remarks on odd but readable files
                batch = list(pool.map(decode, plan.entries[start : start + _BATCH]))
            yield batch


def _in_memory(plan: Plan, name: str, source: str, progress: Progress) -> ImageDataset:
    """Decode a small collection into an array."""
    pixels: list[np.ndarray] = []
    problems: dict[int, str] = {}
    for row, decoded in enumerate(chain.from_iterable(decode_in_batches(plan, name, progress))):
        if isinstance(decoded, str):
            problems[row] = decoded
        else:
            pixels.append(decoded)
    images = np.stack(pixels) if pixels else np.empty((0, 1, 1, 1), np.uint8)
    return assemble(plan, images, problems, name, source)


def assemble(
    plan: Plan, images: np.ndarray, problems: dict[int, str], name: str, source: str
) -> ImageDataset:
    """Put decoded images, labels and splits together, leaving out what was unreadable.

    Args:
        plan: what was decoded.
        images: the readable images in the plan's order.
        problems: for each unreadable entry, by row of the plan, the reason.
        name: what to call the data set.
        source: where it is, in words.

    Returns:
        The data set.
    """
    notes = _report(problems, len(plan.entries), name)
    if len(images) == 0:
        raise DataError(
            f"{name!r}: none of its {len(plan.entries)} files is a readable image "
            f"({next(iter(problems.values()))})"
        )
    kept = np.setdiff1d(np.arange(len(plan.entries)), np.array(list(problems), dtype=np.int64))
    split_of = np.array(plan.split_of)[kept]
    splits = {split: np.flatnonzero(split_of == split) for split in SPLIT_NAMES}
    return ImageDataset(
        images=images,
        labels=None if plan.labels is None else plan.labels[kept],
        splits={split: rows for split, rows in splits.items() if len(rows)},
        meta=DatasetMeta(name, source, plan.class_names, notes=notes),
    )


def _report(problems: dict[int, str], n: int, name: str) -> tuple[str, ...]:
    """Log what could not be read: every name up to a limit, and always the count."""
    if not problems:
        return ()
    for problem in list(problems.values())[:_LISTED]:
        _log.warning("left out %s", problem)
    note = f"{len(problems)} of {n} files are unreadable and left out"
    _log.warning("data set %r: %s", name, note)
    return (f"{note}: " + "; ".join(list(problems.values())[:_LISTED]),)
