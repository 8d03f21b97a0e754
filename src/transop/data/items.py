"""Data sets of other libraries: anything with a length whose items are images.

Read by what they can do, so neither torchvision nor ``datasets`` need be installed: a torch
``Dataset`` (items are images, or tuples that start with image and label), a Hugging Face
``Dataset`` (items are dictionaries), a list of images, or a mapping from split names to any of
these, such as a Hugging Face ``DatasetDict``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image

from transop.data.arrays import Part, images_from_array, to_numpy
from transop.data.picture import GREY_MODES, square_pixels
from transop.data.request import DatasetRequest
from transop.data.splits import SPLIT_WORDS
from transop.errors import DataError

_IMAGE_KEYS = ("image", "img", "pixel_values", "images", "x")
_LABEL_KEYS = ("label", "labels", "target", "fine_label", "y")


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
