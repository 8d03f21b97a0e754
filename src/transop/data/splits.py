"""Cut a data set into train, validation and test: seeded, exact and stratified."""

import numpy as np
from jaxtyping import Int64

from transop.data.dataset import SPLIT_NAMES

# Share of the images that goes to validation and to test, when the source has no splits.
_SHARE = 0.1


def random_order(
    n: int, labels: Int64[np.ndarray, " n"] | None, seed: int
) -> Int64[np.ndarray, " n"]:
    """Shuffle indices so that every stretch of the order holds the classes in proportion.

    Each image gets its rank within its shuffled class, as a fraction of the class; sorting by
    that fraction spreads every class evenly, so any cut is stratified to within one image.

    Args:
        n: number of images.
        labels: classes to spread, or ``None`` for a plain shuffle.
        seed: the same seed gives the same order.

    Returns:
        A permutation of ``0 .. n-1``.
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


def cut(order: Int64[np.ndarray, " n"], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Cut an order of images into named consecutive pieces.

    Args:
        order: image indices.
        sizes: number of images per split, in order; they add up to at most ``n``.

    Returns:
        Sorted indices per split.
    """
    splits, start = {}, 0
    for name in SPLIT_NAMES:
        if sizes.get(name):
            splits[name] = np.sort(order[start : start + sizes[name]])
            start += sizes[name]
    return splits


def random_splits(
    n: int, labels: Int64[np.ndarray, " n"] | None, seed: int
) -> dict[str, np.ndarray]:
    """Split 80/10/10 at random, every class in proportion."""
    return cut(random_order(n, labels, seed), split_sizes(n))


def consecutive_splits(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Split images that already lie in the order train, validation, test."""
    return cut(np.arange(sum(sizes.values()), dtype=np.int64), sizes)
