"""The one small object every data set becomes: images, labels, splits, meta."""

import hashlib
import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from transop.artifacts.mapped import digest_rows
from transop.errors import DataError
from transop.inputs import check_device, check_indices, check_tensor

SPLIT_NAMES = ("train", "validation", "test")
# Share of the images that goes to validation and to test, when the source has no splits.
_SHARE = 0.1

# What files, folders and other libraries call the splits.
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}

Indices = Sequence[int] | Int64[np.ndarray, " batch"] | Int64[Tensor, " batch"] | slice


@dataclass(frozen=True)
class DatasetMeta:
    """What is known about a data set besides its arrays."""

    name: str  # the registry name, or the file or folder name
    source: str  # where the images came from, in words
    class_names: tuple[str, ...] | None = None  # one per label value
    attribute_names: tuple[str, ...] | None = None  # one per column of ImageDataset.attributes
    factor_names: tuple[str, ...] | None = None  # one per column of ImageDataset.factors
    sources_tried: tuple[str, ...] = ()  # every source that was asked, in order, with its outcome
    notes: tuple[str, ...] = ()  # what to know before training (odd but usable data)


@dataclass(eq=False)
class ImageDataset:
    """Square images held as bytes, with optional labels, attributes and factors.

    Images stay uint8 (or memory-mapped) and become floats one batch at a time, so a set costs
    its pixels in bytes and no more.

    Attributes:
        images: bytes from 0 to 255, shape (n, channels, size, size), one or three channels.
        labels: class numbers from 0, or None.
        splits: rows by name: "train" and, but for tiny sets, "validation" and "test".
        meta: name, source, names of classes and attributes, notes.
        attributes: yes/no properties of each image, or None.
        factors: continuous properties of each image, or None.
        files: the file of each image below its folder or archive, if it came from one.
    """

    images: UInt8[np.ndarray, "n channels size size"]
    labels: Int64[np.ndarray, " n"] | None
    splits: dict[str, Int64[np.ndarray, " _"]]
    meta: DatasetMeta
    attributes: Shaped[np.ndarray, "n k"] | None = None
    factors: Shaped[np.ndarray, "n f"] | None = None
    files: Shaped[np.ndarray, " n"] | None = None
    _hash: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for flaw in self._flaws():
            raise DataError(f"data set {self.meta.name!r}: {flaw}")

    def __len__(self) -> int:
        return int(self.images.shape[0])

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "channels size size"], int]:
        """Give one image and its label, so that a torch ``DataLoader`` can read the set.

        The image is floats between 0 and 1; the label is -1 in a set without labels.
        """
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"index={row} is outside of a data set of {len(self)} images")
        return self.batch([row])[0], -1 if self.labels is None else int(self.labels[row])

    @property
    def n_channels(self) -> int:
        """One for grey images, three for colour."""
        return int(self.images.shape[1])

    @property
    def image_size(self) -> int:
        """Height and width in pixels."""
        return int(self.images.shape[2])

    @property
    def held_out_split(self) -> str:
        """The split whose images stand for new ones: test, else validation, else train."""
        return next(name for name in reversed(SPLIT_NAMES) if name in self.splits)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return (self.n_channels, self.image_size, self.image_size)

    @property
    def n_classes(self) -> int:
        """Number of label values; 0 without labels."""
        if self.labels is None:
            return 0
        if self.meta.class_names is not None:
            return len(self.meta.class_names)
        return int(self.labels.max()) + 1

    def batch(
        self, indices: Indices, device: torch.device | str | None = None
    ) -> Float[Tensor, "batch channels size size"]:
        """Turn the chosen images, in this order, into floats between 0 and 1 on a device."""
        place = None if device is None else check_device(device)
        rows = indices if isinstance(indices, slice) else self._positions(indices)
        chosen = np.array(self.images[rows], order="C")  # a copy: never a view on the map
        return torch.from_numpy(chosen).to(place).float().div_(255.0)

    def subset(self, split: str | Indices) -> "ImageDataset":
        """Take one split, or any choice of images, as a data set of its own.

        Labels, attributes, factors and files follow their images. A contiguous ascending choice
        is a view, so a memory-mapped set stays memory-mapped. A named split keeps its name as the
        only split; other choices become "train".
        """
        name = split if isinstance(split, str) else "train"
        rows: Any = self.rows(split)
        if len(rows) and rows[0] >= 0 and bool(np.all(np.diff(rows) == 1)):
            rows = slice(int(rows[0]), int(rows[-1]) + 1)  # which numpy answers with a view
        changes: dict[str, Any] = {"images": self.images[rows]}
        columns = {**self._columns(), "files": self.files}
        changes |= {key: None if c is None else c[rows] for key, c in columns.items()}
        changes["splits"] = {name: np.arange(len(changes["images"]), dtype=np.int64)}
        return replace(self, **changes)

    def content_hash(self) -> str:
        """Give a digest of images, labels, attributes, factors and splits.

        The same content gives the same text in every process and on every machine. Above 512 MB,
        the images are read at 8,192 evenly spaced places only (the first and the last among
        them), so that a large memory map is not read to its end. Labels, attributes, factors and
        splits are always read whole.
        """
        if self._hash is None:
            columns = {"images": self.images, **self._columns()}
            # Every array under its name, so that none can stand in for another.
            parts: dict[str, Any] = {
                name: None if column is None else digest_rows(column)
                for name, column in columns.items()
            }
            parts["splits"] = {name: digest_rows(rows) for name, rows in self.splits.items()}
            text = json.dumps(parts, sort_keys=True)
            self._hash = hashlib.sha256(text.encode()).hexdigest()
        return self._hash

    def _columns(self) -> dict[str, Any]:
        """Give what may be known about every image, by name."""
        return {"labels": self.labels, "attributes": self.attributes, "factors": self.factors}

    def rows(self, split: str | Indices) -> Int64[np.ndarray, " batch"]:
        """Give the indices of a split's images, or those of any other choice."""
        if isinstance(split, str):
            if split not in self.splits:
                raise DataError(
                    f"split={split!r} is not in data set {self.meta.name!r}; "
                    f"it has {', '.join(self.splits)}"
                )
            return self.splits[split]
        if isinstance(split, slice):
            return np.arange(len(self), dtype=np.int64)[split]
        return self._positions(split)

    def _positions(self, indices: Any) -> Int64[np.ndarray, " batch"]:
        """Take numbers of images, negative ones counting from the end, or a mask."""
        given = check_tensor("indices", indices).detach().cpu()
        if given.dtype == torch.bool and given.shape == (len(self),):
            return given.nonzero().flatten().numpy()
        if given.numel() == 0:
            return np.zeros(0, dtype=np.int64)
        return check_indices("indices", given, len(self), least=-len(self)).numpy()

    def _flaws(self) -> Iterator[str]:
        """Say what is wrong; the first flaw is the one that counts."""
        images = self.images
        if images.dtype != np.uint8 or images.ndim != 4:
            yield (
                f"images have type {images.dtype} and shape {images.shape}; an ImageDataset holds "
                "uint8 (n, channels, size, size): use load_dataset to convert"
            )
        n = len(self)
        if n == 0:
            yield "it has no images; pass at least one"
        channels, height, width = images.shape[1:]
        if channels not in (1, 3) or height != width or height == 0:
            yield (
                f"images have shape {images.shape[1:]} (channels, height, width); use 1 or 3 "
                "channels and equal height and width: load_dataset(..., image_size=) crops"
            )
        for name, column in {**self._columns(), "files": self.files}.items():
            if column is not None and len(column) != n:
                yield f"{name} has {len(column)} rows but there are {n} images; pass one for each"
        if self.labels is not None and self.labels.min() < 0:
            yield f"labels start at {self.labels.min()}; number the classes from 0"
        if self.labels is not None and self.labels.max() >= self.n_classes:
            yield (
                f"labels go up to {self.labels.max()} but there are {self.n_classes} class names; "
                "pass one for each class"
            )
        if "train" not in self.splits and len(self.splits) != 1:
            yield "splits must contain 'train'"
        for name, rows in self.splits.items():
            if len(rows) == 0:
                yield f"split {name!r} is empty; leave it out"
            if rows.min() < 0 or rows.max() >= n:
                wrong = rows.max() if rows.max() >= n else rows.min()
                yield f"split {name!r} points to image {wrong} of {n}; use indices 0 to {n - 1}"


def random_order(
    n: int, labels: Int64[np.ndarray, " n"] | None, seed: int
) -> Int64[np.ndarray, " n"]:
    """Shuffle indices so that every stretch of the order holds the classes in proportion.

    Each image gets its rank within its shuffled class, as a fraction of the class; sorting by
    that fraction spreads every class evenly, so any cut is stratified to within one image.
    """
    random = np.random.default_rng(seed)
    shuffled = random.permutation(n)
    if labels is None:
        return shuffled.astype(np.int64)
    members = shuffled[np.argsort(labels[shuffled], kind="stable")]  # class after class
    first, size = np.unique(labels[members], return_index=True, return_counts=True)[1:]
    rank = np.arange(n) - np.repeat(first, size)
    position = np.empty(n)
    position[members] = (rank + 0.5) / np.repeat(size, size)
    return shuffled[np.argsort(position[shuffled], kind="stable")].astype(np.int64)


def spread_out(rows: Int64[np.ndarray, " n"], most: int) -> Int64[np.ndarray, " m"]:
    """Choose at most so many rows, evenly spaced: images of a folder come class after class."""
    chosen: np.ndarray = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
    return chosen


def split_sizes(n: int) -> dict[str, int]:
    """Give 80 % to train and 10 % each to validation and test; tiny sets are all train."""
    held_out = int(n * _SHARE)
    sizes = {"train": n - 2 * held_out, "validation": held_out, "test": held_out}
    return {name: size for name, size in sizes.items() if size}


def random_splits(
    n: int, labels: Int64[np.ndarray, " n"] | None, seed: int
) -> dict[str, np.ndarray]:
    """Split 80/10/10 at random, every class in proportion."""
    return _cut(random_order(n, labels, seed), split_sizes(n))


def consecutive_splits(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Split images that already lie in the order train, validation, test."""
    return _cut(np.arange(sum(sizes.values()), dtype=np.int64), sizes)


def _cut(order: Int64[np.ndarray, " n"], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Cut an order of images into named consecutive pieces; sizes may come in any order."""
    sizes = {name: sizes[name] for name in SPLIT_NAMES if sizes.get(name)}
    pieces = np.split(order, np.cumsum(list(sizes.values())))
    return {name: np.sort(piece) for name, piece in zip(sizes, pieces, strict=False)}
