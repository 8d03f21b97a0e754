"""Numpy's own files, ``.npy`` and ``.npz``: read without ever unpickling."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from transop.data.archive import open_zip
from transop.data.arrays import images_from_array, labels_from_array
from transop.data.conform import conform
from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.request import DatasetRequest
from transop.data.splits import consecutive_splits, random_splits
from transop.errors import DataError

_IMAGE_KEYS = ("images", "image", "x", "data", "arr_0")
_LABEL_KEYS = ("labels", "label", "y", "targets", "target", "arr_1")
_SPLIT_KEYS = {
    "train": ("train",),
    "validation": ("val", "valid", "validation"),
    "test": ("test",),
}


def load_npy(path: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Load images from a ``.npy`` file; bytes stay memory-mapped.

    Args:
        path: the file.
        labels: class numbers, or ``None``.
        request: wanted size and channels, and seed.

    Returns:
        The images, split 80/10/10.
    """
    request.refuse_options(f"file {path.name}")
    array = _reading(path.name, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    return _dataset([(None, array, labels)], path, request)


def load_npz(path: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Load images, and labels if there are any, from a ``.npz`` file.

    Accepted names: ``images`` and ``labels`` (or x, y, data, targets, arr_0, arr_1), a single
    array of any name, or ``x_train``, ``y_train``, ``x_test``, ``y_test`` and so on, which fix
    the splits.

    Args:
        path: the file.
        labels: class numbers, if the file has none.
        request: wanted size and channels, and seed.

    Returns:
        The images; split 80/10/10 unless the file has splits.
    """
    request.refuse_options(f"file {path.name}")
    with open_zip(path) as archive:
        names = {Path(n).stem: n for n in archive.namelist() if n.endswith(".npy")}
        parts = []
        for split, image_key, label_key in _keys(path, tuple(names)):
            images = _member(path, archive, names[image_key])
            own = None if label_key is None else _member(path, archive, names[label_key])
            parts.append((split, images, own if labels is None else labels))
    return _dataset(parts, path, request)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read every array of a ``.npz`` file by its name, refusing bombs, pickles and damage."""
    with open_zip(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        return {Path(name).stem: _member(path, archive, name) for name in members}


def _reading(name: str, read: Callable[[], Any]) -> np.ndarray:
    """Read an array; whatever numpy says about bad bytes becomes one clear error."""
    try:
        array = read()
    except Exception as error:  # damaged headers raise anything from SyntaxError to MemoryError
        if any(word in str(error).lower() for word in ("pickle", "python objects")):
            raise DataError(
                f"{name} holds an object array or a pickle, which could run code and is never "
                "loaded; save one numeric array, e.g. np.save(file, np.stack(images))"
            ) from None
        reason = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{name} is damaged or no numpy file ({reason}); save it again") from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name} holds no numpy array; save one with np.save")
    return array


def _member(path: Path, archive: zipfile.ZipFile, member: str) -> np.ndarray:
    def read() -> Any:
        return np.load(io.BytesIO(archive.read(member)), allow_pickle=False)

    return _reading(f"{member} in {path.name}", read)


def _keys(path: Path, names: tuple[str, ...]) -> list[tuple[str | None, str, str | None]]:
    """Find which arrays are images and labels: (split or None, image name, label name)."""
    known = {name.lower(): name for name in names}
    found: list[tuple[str | None, str, str | None]] = []
    for split, endings in _SPLIT_KEYS.items():
        for ending in endings:
            image = _first(known, tuple(f"{key}_{ending}" for key in _IMAGE_KEYS))
            image = image or _first(known, tuple(f"{ending}_{key}" for key in _IMAGE_KEYS))
            label = _first(known, tuple(f"{key}_{ending}" for key in _LABEL_KEYS))
            label = label or _first(known, tuple(f"{ending}_{key}" for key in _LABEL_KEYS))
            if image is not None:
                found.append((split, image, label))
                break
    if found and found[0][0] == "train":
        return found
    image = _first(known, _IMAGE_KEYS) or (names[0] if len(names) == 1 else None)
    if image is None:
        raise DataError(
            f"{path.name} has arrays {', '.join(names) or '(none)'} but none called 'images'; "
            "save it with np.savez(file, images=..., labels=...)"
        )
    return [(None, image, _first(known, _LABEL_KEYS))]


def _first(known: dict[str, str], keys: tuple[str, ...]) -> str | None:
    return next((known[key] for key in keys if key in known), None)


def _dataset(
    parts: list[tuple[str | None, np.ndarray, Any]], path: Path, request: DatasetRequest
) -> ImageDataset:
    """Convert and join the parts; parts with names are splits."""
    stacks, columns = [], []
    for split, array, labels in parts:
        where = path.name if split is None else f"the {split} part of {path.name}"
        images = images_from_array(array, f"the image array of {where}")
        stacks.append(conform(images, request.image_size, request.channels))
        columns.append(labels_from_array(labels, len(images), f"the labels of {where}"))
    if len({stack.shape[1:] for stack in stacks}) > 1:
        raise DataError(
            f"the splits of {path.name} have images of different shapes; pass image_size"
        )
    images = stacks[0] if len(stacks) == 1 else np.concatenate(stacks)
    known = [column for column in columns if column is not None]
    classes = np.concatenate(known) if len(known) == len(columns) else None
    sizes = {split: len(stack) for (split, _, _), stack in zip(parts, stacks, strict=True) if split}
    splits = (
        consecutive_splits(sizes) if sizes else random_splits(len(images), classes, request.seed)
    )
    return ImageDataset(images, classes, splits, DatasetMeta(path.stem, f"file {path}"))
