"""Cut a data set into train, validation and test: seeded, exact and stratified."""

import numpy as np
from jaxtyping import Int64

from transop.data.dataset import SPLIT_NAMES

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
    position = np.empty(n)
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(position[shuffled], kind="stable")].astype(np.int64)


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
