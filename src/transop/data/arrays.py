"""Turn arrays, tensors and other libraries' data sets into uint8 images.

Data sets of other libraries are read by what they can do, so neither torchvision nor ``datasets``
need be installed: a torch ``Dataset`` (items are images, or tuples that start with image and
label), a Hugging Face ``Dataset`` (items are dictionaries), a list of images, or a mapping from
split names to any of these, such as a Hugging Face ``DatasetDict``.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from transop.data.dataset import (
    SPLIT_NAMES,
    SPLIT_WORDS,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    random_splits,
)
from transop.data.picture import GREY_MODES, square_pixels
from transop.data.request import DatasetRequest
from transop.errors import DataError, show
from transop.inputs import check_dense

_log = logging.getLogger(__name__)

_CHUNK = 2048
_MOST_CLASSES = 100_000
_SHAPES = "(n, h, w), (n, channels, h, w), (n, h, w, channels) or (n, pixels of square images)"
_IMAGE_KEYS = ("image", "img", "pixel_values", "images", "x")
_LABEL_KEYS = ("label", "labels", "target", "fine_label", "y")


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
            images = request.conform(images_from_array(array, f"images{of}"))
        stacks.append(images)
        columns.append(labels_from_array(part.labels, len(images), f"labels{of}"))
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
    """Find the smallest and largest value; NaN and infinity are refused."""
    least, most = float(array.min()), float(array.max())
    if not (math.isfinite(least) and math.isfinite(most)):
        bad = np.flatnonzero([not np.isfinite(image).all() for image in array])
        raise DataError(
            f"{name} contains NaN or infinity ({len(bad)} of {len(array)} images, first number "
            f"{bad[0]}); remove these images or use np.nan_to_num"
        )
    return least, most


def is_item_source(source: Any) -> bool:
    """Say whether a source has a length and items, and is not an array of numbers."""
    if isinstance(source, Mapping):
        return True
    if hasattr(source, "__array__") or hasattr(source, "detach"):
        return False
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        return False
    if isinstance(source, list | tuple):  # nested lists of numbers are an array
        return bool(source) and isinstance(source[0], Image.Image | tuple | Mapping)
    return True


def parts_from_items(
    source: Any, request: DatasetRequest
) -> tuple[list[Part], tuple[str, ...] | None]:
    """Read every item of a data set, or of one per split; and the names of the classes."""
    if not isinstance(source, Mapping):
        return [_part(None, source, request)], _class_names(source)
    unknown = [name for name in source if name not in SPLIT_WORDS]
    if unknown or "train" not in source:
        raise DataError(
            f"the mapping has the keys {', '.join(map(repr, source))}; use 'train', and "
            "'validation' and 'test' if there are any"
        )
    parts = [_part(SPLIT_WORDS[name], items, request) for name, items in source.items()]
    return parts, _class_names(source["train"])


def _part(split: str | None, source: Any, request: DatasetRequest) -> Part:
    """Collect images and labels; images of several sizes are brought to one."""
    where = f"the {split} part" if split else ""
    if not is_item_source(source):
        return Part(split, source, None, where)
    if len(source) == 0:
        raise DataError(f"{where or 'the data set'} has no items; pass at least one image")
    images, labels = [], []
    for image, label in request.progress(_items(source), "reading items", len(source)):
        images.append(image)
        labels.append(label)
    known = [label for label in labels if label is not None and label >= 0]
    if known and len(known) < len(labels):
        raise DataError(
            f"{len(labels) - len(known)} of {len(labels)} items have no label; give all of them "
            "a label or none (items without labels can be passed as a data set of images alone)"
        )
    arrays = [_as_array(image, f"item {row}") for row, image in enumerate(images)]
    modes = {image.mode for image in images if isinstance(image, Image.Image)}
    if len({array.shape for array in arrays}) == 1 and modes <= {"L", "RGB"}:
        return Part(split, np.stack(arrays), known or None, where)
    return Part(split, _made_alike(images, request), known or None, where, conformed=True)


def _as_array(image: Any, name: str) -> np.ndarray:
    return np.asarray(image) if isinstance(image, Image.Image) else to_numpy(image, name)


def _items(source: Any) -> Iterator[tuple[Any, int | None]]:
    """Give image and label of every item, in order."""
    for row in range(len(source)):
        item = source[row]
        if isinstance(item, Mapping):
            image = next((item[key] for key in _IMAGE_KEYS if key in item), None)
            label = next((item[key] for key in _LABEL_KEYS if key in item), None)
            if image is None:
                raise DataError(
                    f"item {row} has the keys {', '.join(map(repr, item))} but no image; name it "
                    f"one of {', '.join(_IMAGE_KEYS)}"
                )
        elif isinstance(item, tuple | list) and len(item) > 0:
            image, label = item[0], item[1] if len(item) > 1 else None
        else:
            image, label = item, None
        yield image, _as_label(label, row)


def _as_label(label: Any, row: int) -> int | None:
    if label is None:
        return None
    try:
        number = float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not number.is_integer():
        raise DataError(
            f"item {row} has the label {label!r}; pass one class number per image, counted from 0"
        )
    return int(number)


def _made_alike(images: list[Any], request: DatasetRequest) -> np.ndarray:
    """Bring images of several sizes or kinds to one."""
    if all(isinstance(image, Image.Image) for image in images):
        grey = all(image.mode in GREY_MODES for image in images)
        channels = request.channels or (1 if grey else 3)
        size = request.image_size or min(min(image.size) for image in images)
        return np.stack(
            [square_pixels(i, size, channels, fit=request.fit, crop=request.crop) for i in images]
        )
    if request.image_size is None:
        raise DataError("items have images of different shapes; pass image_size")
    arrays = [_as_array(image, "an item") for image in images]
    alike = [request.conform(images_from_array(array[None], "an item")) for array in arrays]
    if len({array.shape for array in alike}) > 1:
        raise DataError("items have both grey and colour images; pass channels")
    return np.concatenate(alike)


def _class_names(source: Any) -> tuple[str, ...] | None:
    """Read names of classes: ``classes`` of torchvision, ``features`` of Hugging Face."""
    features = getattr(source, "features", None)
    if isinstance(features, Mapping):
        column = next((features[key] for key in _LABEL_KEYS if key in features), None)
        names = getattr(column, "names", None)
    else:
        names = getattr(source, "classes", None)
    return tuple(str(name) for name in names) if isinstance(names, list | tuple) else None
