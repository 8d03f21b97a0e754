"""How well communities agree with labels, where there are labels to compare with."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def agreement(
    communities: Int[np.ndarray, " n"], labels: Int[np.ndarray, " n"]
) -> dict[str, float]:
    """Compare two ways to group the same images.

    Args:
        communities: one number per image.
        labels: the other grouping.

    Returns:
        ``purity``: the share of images whose community is named after their label, when every
        community is named after its most frequent label. ``adjusted_rand``: the share of pairs
        of images on which both groupings agree, corrected for chance: 0 for unrelated
        groupings, 1 for equal ones.
    """
    counts = np.zeros((int(communities.max()) + 1, int(labels.max()) + 1))
    np.add.at(counts, (communities, labels), 1)
    return {
        "purity": float(counts.max(1).sum() / counts.sum()),
        "adjusted_rand": _adjusted_rand(counts),
    }


def _adjusted_rand(counts: np.ndarray) -> float:
    def pairs(sizes: np.ndarray) -> float:
        return float((sizes * (sizes - 1) / 2).sum())

    both, first, second = pairs(counts), pairs(counts.sum(1)), pairs(counts.sum(0))
    chance = first * second / max(1.0, pairs(counts.sum(keepdims=True)))
    most = (first + second) / 2
    return (both - chance) / (most - chance) if most != chance else 1.0
