"""The ways of choosing partners, one function per strategy."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.errors import DataError, UserError
from transop.inputs import check_finite, check_tensor
from transop.pairs import approximate
from transop.pairs.features import FeatureExtractor, feature_blocks, input_size_for
from transop.pairs.given import read_given
from transop.pairs.neighbours import nearest_neighbours
from transop.pairs.pixel_rows import PixelRows
from transop.pairs.request import Backbone, PairRequest, hash_tensor
from transop.pairs.source import GroupPartners, ListedPartners, PairSource

_LOG = logging.getLogger(__name__)

# Estimated from 50,000 images: 200,000 take some 1,100 CPU seconds, growing with the square.
EXACT_LIMIT = 400_000
_CALLABLE_BATCH = 128


def perceptual(request: PairRequest, backbones: dict[str, Backbone]) -> PairSource:
    """Pair images that a pretrained classifier sees as alike.

    [PAIR]  with r the features before the classifier's last layer.
    """
    features, key = perceptual_features(request, backbones)
    return _nearest("perceptual", request, features, key)


def perceptual_in_class(request: PairRequest, backbones: dict[str, Backbone]) -> PairSource:
    """Pair images of the same class that a pretrained classifier sees as alike."""
    labels = request.labels("perceptual-in-class")
    features, key = perceptual_features(request, backbones)
    return _nearest("perceptual-in-class", request, features, key, groups=labels)


def pixel(request: PairRequest) -> PairSource:
    """Pair images with the smallest Euclidean distance between pixel values."""
    rows = PixelRows(request.dataset.images, request.rows)
    return _nearest("pixel", request, rows, {**request.content_key(), "features": "pixel"})


def latent(request: PairRequest) -> PairSource:
    """Pair images whose latent points are nearest; the autoencoder's points must be passed."""
    if request.latents is None:
        raise UserError(
            "strategy='latent' needs latents=, one latent point per image; "
            "pass model.encode(images), or choose 'perceptual'"
        )
    latents = _rows_of(request.latents, request, "latents")
    return _nearest("latent", request, latents, None)  # cheap, and another after each training


def same_class(request: PairRequest) -> PairSource:
    """Pair any two different images of a class."""
    groups = request.labels("same-class")
    return PairSource("same-class", GroupPartners(groups), request.rows)


def at_random(request: PairRequest) -> PairSource:
    """Pair any two different images."""
    groups = np.zeros(len(request.rows), dtype=np.int64)
    return PairSource("random", GroupPartners(groups), request.rows)


def given(request: PairRequest) -> PairSource:
    """Pair images as the user says."""
    if request.given is None:
        raise UserError(
            "strategy='given' needs given=: a file or array of index pairs, a neighbour table, "
            "a time index or transformation labels"
        )
    found = read_given(request.given, request.positions, request.n_neighbours)
    if isinstance(found, ListedPartners):
        return PairSource("given", found, request.rows)
    return PairSource("given", ListedPartners.from_table(found), request.rows, neighbours=found)


def perceptual_features(
    request: PairRequest, backbones: dict[str, Backbone]
) -> tuple[Float[Tensor, "n f"], dict[str, Any] | None]:
    """Give one row of features per image of the split, and their name in the cache.

    Features of a user's own function have no name and are computed each time.
    """
    wanted = request.features
    if isinstance(wanted, np.ndarray | Tensor):
        features = _rows_of(wanted, request, "features")
        return features, {"features": hash_tensor(features)}
    if isinstance(wanted, str):
        if wanted not in backbones:
            raise UserError(
                f"features={wanted!r} is not a backbone; choose one of {', '.join(backbones)}, "
                "a function of images, or an array with one row per image"
            )
        size = request.input_size or input_size_for(request.dataset.image_size)
        extractor = backbones[wanted](size, request.weights, request.cache_dir)
    else:
        extractor = FeatureExtractor(wanted, _CALLABLE_BATCH, key=None)
    key = None
    if extractor.key is not None:
        key = {**request.content_key(), "features": extractor.key}

    def compute() -> Iterator[Tensor]:
        return feature_blocks(
            request.dataset,
            request.rows,
            extractor,
            device=request.device,
            ranks=request.ranks,
            progress=request.progress,
        )

    table, _ = request.cache.fetch("features", key, len(request.rows), compute)
    return table, key


def _nearest(
    strategy: str,
    request: PairRequest,
    features: Float[Tensor, "n f"] | PixelRows,
    key: dict[str, Any] | None,
    groups: Int64[np.ndarray, " n"] | None = None,
) -> PairSource:
    """Search neighbours by features, once per images, features and settings."""
    searches_exactly = groups is not None or _is_exact(request)
    if key is not None:
        key = {
            **key,
            "n_neighbours": request.n_neighbours,
            "search": "exact" if searches_exactly else "faiss",
            "groups": None if groups is None else hash_tensor(torch.from_numpy(groups)),
        }

    notes: dict[str, Any] = {"recall": None}

    def compute() -> Iterator[Tensor]:
        if searches_exactly:
            yield nearest_neighbours(
                features,
                request.n_neighbours,
                groups=groups,
                device=request.device,
                ranks=request.ranks,
                progress=request.progress,
            )
            return
        table, notes["recall"] = approximate.approximate_neighbours(
            features,
            request.n_neighbours,
            scratch=request.cache_dir / "pairs",
            ranks=request.ranks,
            progress=request.progress,
        )
        yield table

    n_rows = len(request.rows)
    table, kept = request.cache.fetch("neighbours", key, n_rows, compute, lambda: notes)
    partners = ListedPartners.from_table(table)
    return PairSource(strategy, partners, request.rows, neighbours=table, recall=kept["recall"])


def _is_exact(request: PairRequest) -> bool:
    """Decide between exact and approximate search."""
    if request.search != "auto":
        return request.search == "exact"
    if len(request.rows) <= EXACT_LIMIT:
        return True
    if approximate.is_available():
        return False
    _LOG.warning(
        "searching %d images exactly takes long; pip install 'transop[faiss]' for a faster, "
        "approximate search",
        len(request.rows),
    )
    return True


def _rows_of(values: np.ndarray | Tensor, request: PairRequest, name: str) -> Float[Tensor, "n f"]:
    """Take the split's rows of a table with one row per image of the split or the data set."""
    table = check_tensor(name, values).detach().cpu()
    check_finite(**{name: table})
    if table.ndim < 2 or len(table) not in (len(request.rows), len(request.dataset)):
        raise DataError(
            f"{name} has shape {tuple(table.shape)}; pass one row for each of the "
            f"{len(request.rows)} images of the split or the {len(request.dataset)} of the data set"
        )
    if len(table) != len(request.rows):
        table = table[request.rows]
    table = table.flatten(1)
    return table if table.is_floating_point() else table.float()
