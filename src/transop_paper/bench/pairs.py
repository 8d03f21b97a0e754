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

    n_images: int
    features: Cost  # describing the images by the backbone
    search: Cost  # exact neighbours, in blocks
    # the same neighbours from one n x n table; None where it would not fit
    all_at_once: Cost | None
    table_megabytes: float  # size of that table
    agreement: float | None  # share of neighbours on which both searches agree


@dataclass(frozen=True)
class PairBenchmark:
    """Costs for growing numbers of images, and how they grow."""

    costs: tuple[PairCosts, ...]
    image_size: int
    n_features: int
    n_neighbours: int
    n_threads: int
    # powers of the number of images that the time for features and for the search grows with;
    # empty for a single number
    growth: dict[str, float]


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
    n_threads = torch.get_num_threads()
    return PairBenchmark(costs, image_size, n_features, n_neighbours, n_threads, growth(costs))


def growth(costs: Sequence[PairCosts]) -> dict[str, float]:
    """Find the powers of n that both times follow from the smallest to the largest number."""
    if len(costs) < 2:
        return {}
    first, last = costs[0], costs[-1]
    times = {"features": (first.features, last.features), "search": (first.search, last.search)}
    further = math.log(last.n_images / first.n_images)
    return {name: math.log(b.seconds / a.seconds) / further for name, (a, b) in times.items()}


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
