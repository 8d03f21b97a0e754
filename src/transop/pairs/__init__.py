"""Pairs of images for the operators to connect: features, then neighbours, then pairs."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from transop.data import ImageDataset, cache_folder
from transop.inputs import (
    check_callable,
    check_choice,
    check_device,
    check_kind,
    check_path,
    check_whole,
)
from transop.pairs import strategies
from transop.pairs.features import (
    BACKBONES,
    FeatureExtractor,
    digest_of_weights,
    extract_features,
    input_size_for,
    pre_logits,
)
from transop.pairs.given import Given
from transop.pairs.neighbours import MISSING, nearest_neighbours
from transop.pairs.source import PairSource
from transop.pairs.strategies import Features, PairRequest, Search
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

STRATEGIES: dict[str, Callable[[PairRequest], PairSource]] = {
    "perceptual": strategies.perceptual,
    "pixel": strategies.pixel,
    "latent": strategies.latent,
    "same-class": strategies.same_class,
    "perceptual-in-class": strategies.perceptual_in_class,
    "random": strategies.at_random,
    "given": strategies.given,
}

_SMALLEST_INPUT, _LARGEST_INPUT = 32, 2048  # a backbone halves images five times

__all__ = [
    "BACKBONES",
    "MISSING",
    "STRATEGIES",
    "FeatureExtractor",
    "PairSource",
    "build_pairs",
    "digest_of_weights",
    "extract_features",
    "input_size_for",
    "nearest_neighbours",
    "pre_logits",
]


def build_pairs(
    dataset: ImageDataset,
    strategy: str = "perceptual",
    *,
    n_neighbours: int = 5,
    split: str | None = "train",
    features: Features | None = None,
    weights: str | Path | None = None,
    input_size: int | None = None,
    latents: np.ndarray | Tensor | None = None,
    given: Given | None = None,
    search: Search = "auto",
    cache_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    ranks: Ranks = ALONE,
    progress: Progress | None = None,
) -> PairSource:
    """Decide which images of a split may be paired with which.

    Features and neighbour tables are kept in the cache and computed once per images and
    settings.

    Args:
        dataset: the images.
        strategy: a key of ``STRATEGIES``.
        n_neighbours: a partner is drawn from so many nearest images.
        split: the split to pair within; None takes all images.
        features: for the perceptual strategies: ``"efficientnet-lite0"`` (``"auto"``, if not
            given), ``"resnet18"``, a function from images in [0, 1] to one row of features each,
            or an array with one row per image.
        weights: a weights file for the backbone, if not its default.
        input_size: side to which images are brought for the backbone, in pixels; about one and
            a half times their own if not given.
        latents: one latent point per image, for ``"latent"``.
        given: a file, array or named arrays, for ``"given"``.
        search: ``"exact"``, ``"faiss"``, or ``"auto"``: exact up to 400,000 images.
        cache_dir: root of the cache; the user's cache folder if not given.
        device: where features and distances are computed.
        ranks: the processes of a data-parallel run, which share the work.
        progress: announces long work.

    Returns:
        A source to draw pairs from; randomness comes in when drawing.

    Raises:
        UserError: a name is unknown or an ingredient of the strategy is missing or wrong.
    """
    check_kind("dataset", dataset, ImageDataset)
    check_choice("strategy", strategy, list(STRATEGIES))
    check_choice("search", search, get_args(Search))
    if split is not None:
        check_choice("split", split, list(dataset.splits))
    if input_size is not None:
        check_whole("input_size", input_size, least=_SMALLEST_INPUT, most=_LARGEST_INPUT)
    check_callable("progress", progress, n_arguments=3, optional=True)
    request = PairRequest(
        dataset=dataset,
        rows=torch.from_numpy(np.array(dataset.rows(slice(None) if split is None else split))),
        n_neighbours=check_whole("n_neighbours", n_neighbours, least=1),
        features="auto" if features is None else features,
        weights=None if weights is None else check_path("weights", weights),
        input_size=input_size,
        latents=latents,
        given=given,
        search=search,
        cache_dir=cache_folder() if cache_dir is None else check_path("cache_dir", cache_dir),
        device=check_device(device),
        ranks=ranks,
        progress=silent if progress is None else progress,
    )
    return STRATEGIES[strategy](request)
