"""Turn numpy arrays and torch tensors of many shapes and ranges into uint8 images."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from transop.data.dataset import SPLIT_NAMES, DatasetMeta, ImageDataset
from transop.data.request import DatasetRequest
from transop.data.splits import consecutive_splits, random_splits
from transop.errors import DataError, show
from transop.inputs import check_dense

_log = logging.getLogger(__name__)

_CHUNK = 2048
_MOST_CLASSES = 100_000
_SHAPES = "(n, h, w), (n, channels, h, w), (n, h, w, channels) or (n, pixels of square images)"


@dataclass(frozen=True)
class Part:
    """Images that belong together, such as those of one split."""

    split: str | None  # None if the images are to be split at random
    images: Any  # an array of any accepted shape
    labels: Any = None
    where: str = ""  # what to call the part in messages
    conformed: bool = False  # whether the images have the wanted shape already


def dataset_from_parts(
    parts: Sequence[Part],
    name: str,
    source: str,
    request: DatasetRequest,
    class_names: tuple[str, ...] | None = None,
) -> ImageDataset:
    """Convert arrays of images, all of them or one per split, and join them to a data set."""
    parts = sorted(parts, key=lambda part: SPLIT_NAMES.index(part.split or "train"))
    stacks, columns = [], []
    for part in parts:
        images, of = part.images, f" of {part.where}" if part.where else ""
        if not part.conformed:
            array = to_numpy(images, f"images{of}")
            name_of_array = f"the image array{of}" if of else "images"
            images = request.conform(images_from_array(array, name_of_array))
        stacks.append(images)
        name_of_labels = f"the labels{of}" if of else "labels"
        columns.append(labels_from_array(part.labels, len(images), name_of_labels))
    if len({stack.shape[1:] for stack in stacks}) > 1:
        raise DataError(
            f"the splits of {name} have images of different shapes; pass image_size and channels"
        )
    images = stacks[0] if len(stacks) == 1 else np.concatenate(stacks)
    known = [column for column in columns if column is not None]
    labels = np.concatenate(known) if len(known) == len(columns) else None
    sizes = {part.split: len(s) for part, s in zip(parts, stacks, strict=True) if part.split}
    splits = (
        consecutive_splits(sizes) if sizes else random_splits(len(images), labels, request.seed)
    )
    return ImageDataset(images, labels, splits, DatasetMeta(name, source, class_names))


def images_from_array(array: np.ndarray, name: str = "images") -> UInt8[np.ndarray, "n c h w"]:
    """Convert an array of images to bytes, channels first.

    Bytes are kept without copying. Floats within 0 to 1 are multiplied by 255, floats within 0 to
    255 are rounded; 16-bit integers are divided by 257; whole numbers that are only 0 and 1 count
    as black and white. Transparency is laid over white.
    """
    _check_type(array, name)
    stacked = _channels_first(array, name)
    factor = _factor(array, name)
    n, channels, *sides = stacked.shape
    if array.dtype == np.uint8 and factor == 1.0 and channels != 4:
        return stacked
    converted = np.empty((n, min(channels, 3), *sides), dtype=np.uint8)
    for start in range(0, n, _CHUNK):
        chunk = np.rint(stacked[start : start + _CHUNK].astype(np.float32) * np.float32(factor))
        if channels == 4:
            alpha = chunk[:, 3:] / 255.0
            chunk = np.rint(chunk[:, :3] * alpha + 255.0 * (1 - alpha))
        converted[start : start + _CHUNK] = chunk
    return converted


def labels_from_array(
    labels: Any, n_images: int, name: str = "labels"
) -> Int64[np.ndarray, " n"] | None:
    """Convert labels, shape (n,) or (n, 1), to class numbers; None passes through."""
    if labels is None:
        return None
    array = to_numpy(labels, name)
    if array.dtype.kind not in "iubf" or not np.array_equal(array, np.floor(array)):
        example = show(array.flat[0] if array.size else None)
        raise DataError(
            f"{name} are not integers (type {array.dtype}, for instance {example}); "
            "number the classes from 0, e.g. np.unique(labels, return_inverse=True)[1]"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{name} have shape {array.shape}; pass one class number per image, "
            f"shape ({n_images},) (for one-hot rows: labels.argmax(1))"
        )
    if len(array) != n_images:
        raise DataError(
            f"{name} has {len(array)} entries for {n_images} images; pass one per image"
        )
    if len(array) and not (array.min() >= 0 and array.max() < _MOST_CLASSES):
        raise DataError(
            f"{name} run from {array.min()} to {array.max()}; number the classes from 0, e.g. "
            "np.unique(labels, return_inverse=True)[1]"
        )
    return array.astype(np.int64)


def to_numpy(array: Any, name: str) -> np.ndarray:
    """See a numpy array, torch tensor or nested list as a numpy array, without copying."""
    if isinstance(array, Tensor):
        check_dense(**{name: array})
        array = array.detach().cpu()
        if array.dtype == torch.bfloat16:  # numpy knows none
            array = array.float()
        array = array.numpy()
    try:
        return np.asanyarray(array)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise DataError(
            f"{name} cannot be seen as one array ({error}); all images must have the same shape"
        ) from None


def _check_type(array: np.ndarray, name: str) -> None:
    if array.dtype.hasobject:
        raise DataError(
            f"{name} is an object array (pickled Python objects, shape {array.shape}), which is "
            "never loaded; save one numeric array, e.g. np.stack(list_of_images)"
        )
    if array.dtype.kind not in "iufb":
        raise DataError(f"{name} has type {array.dtype}; pass whole numbers or floats")
    if array.size == 0:
        raise DataError(
            f"{name} has shape {array.shape}, which holds no pixels; pass at least one image"
        )


def _channels_first(array: np.ndarray, name: str) -> np.ndarray:
    """View any accepted shape as (n, channels, h, w)."""
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 2 and array.shape[0] != array.shape[1]:
        side = math.isqrt(array.shape[1])
        if side * side == array.shape[1] and side > 1:
            return array.reshape(len(array), 1, side, side)
    if array.ndim == 4:
        first, last = array.shape[1] in (1, 3, 4), array.shape[3] in (1, 3, 4)
        if first and not (last and array.shape[1] == array.shape[2]):
            return array
        if last:
            return array.transpose(0, 3, 1, 2)
    hint = "; a single image needs a leading axis: array[None]" if array.ndim in (2, 3) else ""
    raise DataError(
        f"{name} has shape {array.shape}, which is no stack of images; use {_SHAPES}, "
        f"with 1, 3 or 4 channels{hint}"
    )


def _factor(array: np.ndarray, name: str) -> float:
    """Find the number that carries the array's values to 0 .. 255, or refuse them."""
    if array.dtype.kind == "b":
        return 255.0
    if array.dtype == np.uint8 and array[:_CHUNK].max() > 1:
        return 1.0  # the usual case: no need to read a large memory map to its end
    low, high = _range(array, name)
    if array.dtype == np.uint16 and high > 255:
        return 1.0 / 257.0
    if low < 0 or high > 255:
        hint = "(x + 1) / 2" if low >= -1 and high <= 1 else "(x - x.min()) / (x.max() - x.min())"
        raise DataError(
            f"{name} has values from {low:g} to {high:g}; use 0 to 255 or 0 to 1, e.g. {hint}"
        )
    if array.dtype.kind == "f":
        return 255.0 if high <= 1 else 1.0
    if high == 1:
        _log.warning("%s holds only 0 and 1: taking 1 as white", name)
        return 255.0
    return 1.0


def _range(array: np.ndarray, name: str) -> tuple[float, float]:
    """Find the smallest and largest value a chunk at a time; NaN and infinity are refused."""
    low, high = math.inf, -math.inf
    for start in range(0, len(array), _CHUNK):
        chunk = array[start : start + _CHUNK]
        least, most = float(chunk.min()), float(chunk.max())
        if not (math.isfinite(least) and math.isfinite(most)):
            bad = int(np.count_nonzero(~np.isfinite(chunk)))
            raise DataError(
                f"{name} contains NaN or infinity ({bad} values among images {start} to "
                f"{start + len(chunk) - 1}); remove these images or use np.nan_to_num"
            )
        low, high = min(low, least), max(high, most)
    return low, high
