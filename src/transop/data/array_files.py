"""Files of arrays: numpy's ``.npy`` and ``.npz``, never unpickled."""

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transop.data.arrays import Part, dataset_from_parts
from transop.data.dataset import SPLIT_WORDS, ImageDataset
from transop.data.pictures import open_zip
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import reason_of, require_regular

_IMAGE_KEYS = ("images", "image", "x", "data", "arr_0")
_LABEL_KEYS = ("labels", "label", "y", "targets", "target", "arr_1")


def load_npy(path: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Load images from a ``.npy`` file, split 80/10/10; bytes stay memory-mapped."""
    request.refuse_options(f"file {path.name}")
    part = Part(None, read_npy(path, mapped=True), labels, path.name)
    return dataset_from_parts([part], path.stem, f"file {path}", request)


def load_npz(path: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Load images, and labels if there are any, from a ``.npz`` file.

    Accepted names: ``images`` and ``labels`` (or x, y, data, targets, arr_0, arr_1), a single
    array of any name, or ``x_train``, ``y_train``, ``x_test``, ``y_test`` and so on, which fix
    the splits. Labels that are passed replace those of the file.
    """
    request.refuse_options(f"file {path.name}")
    with open_zip(path) as archive:
        members = _members(path, archive)
        parts = []
        for split, image_key, label_key in _keys(path, tuple(members)):
            images = _member(path, archive, members[image_key])
            own = None if label_key is None else _member(path, archive, members[label_key])
            where = path.name if split is None else f"the {split} part of {path.name}"
            parts.append(Part(split, images, own if labels is None else labels, where))
    return dataset_from_parts(parts, path.stem, f"file {path}", request)


def read_npy(path: Path, *, mapped: bool = False) -> np.ndarray:
    """Read or map the array of a ``.npy`` file, refusing pickles and damage."""
    with _clear_errors(path.name):
        require_regular(path)
        return _array(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read every array of a ``.npz`` file by its name, refusing bombs, pickles and damage."""
    with open_zip(path) as archive:
        members = _members(path, archive)
        return {name: _member(path, archive, info) for name, info in members.items()}


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of an archive by name; a name that occurs twice is refused."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            continue
        if name in members:
            raise DataError(
                f"{path.name} holds the array {name!r} twice, so it is not clear which one is "
                "meant; save it again with np.savez"
            )
        members[name] = info
    return members


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with _clear_errors(f"{info.filename} in {path.name}"):
        return _array(np.load(io.BytesIO(archive.read(info)), allow_pickle=False))


def _array(found: Any) -> np.ndarray:
    if not isinstance(found, np.ndarray):
        raise ValueError("it holds no single array; save one with np.save")
    return found


@contextlib.contextmanager
def _clear_errors(name: str) -> Iterator[None]:
    """Turn whatever numpy says about bad bytes into one clear error."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{name} cannot be read: {reason_of(error)}") from None
    except Exception as error:  # damaged headers raise anything from SyntaxError to MemoryError
        if any(word in str(error).lower() for word in ("pickle", "python objects")):
            raise DataError(
                f"{name} holds an object array or a pickle, which could run code and is never "
                "loaded; save one numeric array, e.g. np.save(file, np.stack(images))"
            ) from None
        raise DataError(f"{name} is no numpy file or a damaged one ({error})") from None


def _keys(path: Path, names: tuple[str, ...]) -> list[tuple[str | None, str, str | None]]:
    """Find which arrays are images and labels: (split or None, image name, label name)."""
    known = {name.lower(): name for name in names}

    def first(keys: tuple[str, ...], ending: str = "") -> str | None:
        spelt = [f"{key}_{ending}" for key in keys] + [f"{ending}_{key}" for key in keys]
        return next((known[key] for key in (spelt if ending else keys) if key in known), None)

    found: dict[str, tuple[str | None, str, str | None]] = {}
    for ending, split in SPLIT_WORDS.items():
        image = first(_IMAGE_KEYS, ending)
        if image is not None and split not in found:
            found[split] = (split, image, first(_LABEL_KEYS, ending))
    if "train" in found:
        return list(found.values())
    image = first(_IMAGE_KEYS) or (names[0] if len(names) == 1 else None)
    if image is None:
        raise DataError(
            f"{path.name} has arrays {', '.join(names) or '(none)'} but none called 'images'; "
            "save it with np.savez(file, images=..., labels=...)"
        )
    return [(None, image, first(_LABEL_KEYS))]
