"""Measure how time and memory of pair building grow with the number of images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.data import DatasetMeta, ImageDataset, cache_folder
from transop.errors import UserError
from transop.pairs import (
    BACKBONES,
    FeatureExtractor,
    extract_features,
    input_size_for,
    nearest_neighbours,
)
from transop.progress import Progress, silent
from transop_paper.bench.cost import Cost, cost_of

# The whole table of distances is the contender only while it fits comfortably.
_LARGEST_TABLE_BYTES = 2**31


@dataclass(frozen=True)
class PairCosts:
    """What pair building took for one number of images."""

    n_images: int  # the number
    features: Cost  # describing the images by the backbone
    search: Cost  # exact neighbours, in blocks
    # the same neighbours from one n x n table; None where it would not fit
    all_at_once: Cost | None
    table_megabytes: float  # size of that table
    agreement: float | None  # share of neighbours on which both searches agree

    @property
    def images_per_second(self) -> float:
        """Speed of the feature extraction."""
        return self.n_images / self.features.seconds


@dataclass(frozen=True)
class PairBenchmark:
    """Costs for growing numbers of images, and how they grow.

    A growth of 1 means twice the images take twice as much, 2 means four times.
    """

    costs: tuple[PairCosts, ...]
    image_size: int
    n_features: int
    n_neighbours: int
    n_threads: int

    @property
    def feature_growth(self) -> float | None:
        """Exponent of the feature time, between the smallest and the largest number."""
        return self._growth([cost.features.seconds for cost in self.costs])

    @property
    def search_growth(self) -> float | None:
        """Exponent of the search time, between the smallest and the largest number."""
        return self._growth([cost.search.seconds for cost in self.costs])

    def _growth(self, seconds: Sequence[float]) -> float | None:
        sizes = [cost.n_images for cost in self.costs]
        if len(sizes) < 2:
            return None
        return math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])


def bench_pairs(
    sizes: Sequence[int] = (1000, 2000, 4000, 8000),
    *,
    image_size: int = 28,
    backbone: str = "auto",
    weights: str | Path | None = None,
    n_neighbours: int = 5,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress = silent,
) -> PairBenchmark:
    """Build perceptual pairs for growing numbers of images and report what each step costs.

    Nothing is cached: every number of images is computed from scratch, on images of noise
    (neither step's cost depends on what the images show).
    """
    ascending = all(a < b for a, b in pairwise(sizes))
    if not sizes or not ascending or sizes[0] <= n_neighbours:
        raise UserError(
            f"sizes={list(sizes)} must be ascending numbers of images, each above "
            f"n_neighbours={n_neighbours}"
        )
    if backbone not in BACKBONES:
        raise UserError(f"backbone={backbone!r} is unknown; choose one of {', '.join(BACKBONES)}")
    extractor = BACKBONES[backbone](
        input_size_for(image_size), None if weights is None else Path(weights), cache_folder()
    )
    shape = (max(sizes), 1, image_size, image_size)
    images = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    rows = np.arange(len(images), dtype=np.int64)
    dataset = ImageDataset(images, None, {"train": rows}, DatasetMeta("noise", "generated"))
    extract_features(dataset, torch.arange(extractor.batch_size), extractor, device=device)
    found = [
        _measure(dataset, n, extractor, n_neighbours, device)
        for n in progress(sizes, "images", len(sizes))
    ]
    costs, n_features = tuple(cost for cost, _ in found), found[-1][1]
    return PairBenchmark(costs, image_size, n_features, n_neighbours, torch.get_num_threads())


def _measure(
    dataset: ImageDataset,
    n: int,
    extractor: FeatureExtractor,
    n_neighbours: int,
    device: torch.device | str,
) -> tuple[PairCosts, int]:
    rows = torch.arange(n)
    features, feature_cost = cost_of(
        lambda: extract_features(dataset, rows, extractor, device=device)
    )
    found, search_cost = cost_of(lambda: nearest_neighbours(features, n_neighbours, device=device))
    whole_cost, agreement = None, None
    if 4 * n * n <= _LARGEST_TABLE_BYTES:
        whole, whole_cost = cost_of(lambda: _all_at_once(features.to(device), n_neighbours))
        same = (found[:, :, None] == whole[:, None, :]).any(1)
        agreement = float(same.double().mean())
    table = 4 * n * n / 2**20
    costs = PairCosts(n, feature_cost, search_cost, whole_cost, table, agreement)
    return costs, features.shape[1]


def _all_at_once(features: Float[Tensor, "n f"], n_neighbours: int) -> Int64[Tensor, "n k"]:
    """Find neighbours with every distance in memory at once."""
    distance = torch.cdist(features.float(), features.float())
    distance.fill_diagonal_(torch.inf)
    return distance.topk(n_neighbours, dim=1, largest=False).indices.cpu()
