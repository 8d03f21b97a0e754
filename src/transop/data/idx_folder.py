"""Folders in MNIST's own file format (idx), such as KMNIST or a set of one's own."""

import zlib
from pathlib import Path

import numpy as np

from transop.data.arrays import images_from_array, labels_from_array
from transop.data.conform import conform
from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.files import open_bytes
from transop.data.idx import read_idx
from transop.data.request import DatasetRequest
from transop.data.splits import consecutive_splits, random_splits
from transop.errors import DataError

_VALIDATION_SHARE = 6  # one training image in six is held out, as the paper does for MNIST


def is_idx_folder(root: Path) -> bool:
    """Say whether a folder holds training images in idx format."""
    return _find(root, "train-images-idx3-ubyte") is not None


def load_idx_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load a folder with the file names of MNIST; labels and test files may be missing.

    Args:
        root: the folder.
        request: wanted size and channels, and seed.

    Returns:
        The images; with test files, the last sixth of the training images is for validation,
        without, the split is 80/10/10.
    """
    request.refuse_options(f"folder {root.name}")
    stacks, columns = [], []
    for prefix in ("train", "t10k"):
        images_path = _find(root, f"{prefix}-images-idx3-ubyte")
        if images_path is None:
            continue
        images = images_from_array(_read(images_path), images_path.name)
        stacks.append(conform(images, request.image_size, request.channels))
        labels_path = _find(root, f"{prefix}-labels-idx1-ubyte")
        labels = None if labels_path is None else _read(labels_path)
        columns.append(labels_from_array(labels, len(images), f"{prefix}-labels-idx1-ubyte"))
    if len({stack.shape[1:] for stack in stacks}) > 1:
        raise DataError(
            f"training and test images in {str(root)!r} differ in size; pass image_size"
        )
    known = [column for column in columns if column is not None]
    labels = np.concatenate(known) if len(known) == len(stacks) else None
    images = np.concatenate(stacks)
    splits = random_splits(len(images), labels, request.seed)
    if len(stacks) == 2:
        held_out = len(stacks[0]) // _VALIDATION_SHARE
        sizes = {"train": len(stacks[0]) - held_out, "validation": held_out, "test": len(stacks[1])}
        splits = consecutive_splits(sizes)
    return ImageDataset(images, labels, splits, DatasetMeta(root.resolve().name, f"folder {root}"))


def _find(root: Path, name: str) -> Path | None:
    return next((p for p in (root / name, root / f"{name}.gz") if p.is_file()), None)


def _read(path: Path) -> np.ndarray:
    try:
        with open_bytes(path, decompress=path.suffix == ".gz") as stream:
            return read_idx(stream, path.name)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path.name} is unreadable ({error}); fetch it again") from None
