"""The ways of choosing partners, one function per strategy, and what a caller asks them for."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from transop.artifacts.mapped import Notes, digest_rows, map_rows, write_rows
from transop.data import ImageDataset
from transop.errors import DataError, UserError
from transop.extras import missing_modules
from transop.files import reason_of
from transop.inputs import check_finite, check_tensor
from transop.pairs.features import (
    FeatureExtractor,
    ImageFunction,
    collect_rows,
    feature_blocks,
    input_size_for,
    known_backbones,
)
from transop.pairs.given import Given, Split, read_given
from transop.pairs.neighbours import (
    FeatureRows,
    PixelRows,
    approximate_neighbours,
    nearest_neighbours,
)
from transop.pairs.source import GroupPartners, ListedPartners, PairSource
from transop.progress import Progress
from transop.sharing import Ranks

_LOG = logging.getLogger(__name__)

# Estimated from 50,000 images: 200,000 take some 1,100 CPU seconds, growing with the square.
EXACT_LIMIT = 400_000
_CALLABLE_BATCH = 128
_FORMAT = 3  # raise when features or neighbours of the same settings would come out differently

Features = str | ImageFunction | np.ndarray | Tensor
Search = Literal["auto", "exact", "faiss"]


@dataclass(frozen=True)
class PairRequest:
    """The images to pair and everything that decides how; see `transop.pairs.build_pairs`.

    ``rows`` are the data set indices of the split.
    """

    dataset: ImageDataset
    rows: Int64[Tensor, " n"]
    n_neighbours: int
    features: Features
    weights: Path | None
    input_size: int | None
    latents: np.ndarray | Tensor | None
    given: Given | None
    search: Search
    cache_dir: Path
    device: torch.device
    ranks: Ranks
    progress: Progress

    @property
    def split(self) -> Split:
        """Which images of the data set are paired."""
        return Split(self.rows.numpy(), len(self.dataset))

    def content_key(self) -> dict[str, Any]:
        """Name the images of the split for the cache."""
        return {"images": self.dataset.content_hash(), "rows": digest_rows(self.rows.numpy())}

    def labels(self, strategy: str) -> Int64[np.ndarray, " n"]:
        """Give the labels of the split, or explain why the strategy needs them."""
        if self.dataset.labels is None:
            raise DataError(
                f"strategy={strategy!r} needs labels and data set "
                f"{self.dataset.meta.name!r} has none; choose 'perceptual'"
            )
        return np.asarray(self.dataset.labels[self.rows.numpy()])

    def cached(
        self,
        kind: str,
        key: dict[str, Any] | None,
        compute: Callable[[], Iterator[Shaped[Tensor, "b f"]]],
        notes: Callable[[], Notes] = dict,
    ) -> tuple[Shaped[Tensor, "n f"], Notes]:
        """Map a table from the cache, or compute and store it; a damaged one is computed again.

        The key holds everything the table depends on, as JSON values; None computes without
        storing, for what cannot be named (a user's function). ``compute`` yields blocks of rows;
        ``notes``, called after the last block, gives what to keep beside the table.
        """
        if key is not None:
            text = json.dumps({"format": _FORMAT, **key}, sort_keys=True)
            name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
            folder = self.cache_dir / "pairs" / name
            stored = map_rows(folder)
            if not self.ranks.all(stored is not None):  # what one process lacks, all compute
                self._store(folder, compute(), notes)
                stored = map_rows(folder)
            if self.ranks.all(stored is not None) and stored is not None:
                return torch.from_numpy(stored[0]), stored[1]
        return collect_rows(compute(), len(self.rows)), notes()

    def _store(self, folder: Path, blocks: Iterator[Tensor], notes: Callable[[], Notes]) -> None:
        """Compute a table with all processes; one of them writes it."""
        try:
            if self.ranks.writes:
                write_rows(folder, (block.contiguous().numpy() for block in blocks), notes)
        except OSError as error:  # a full disk costs time later, not the run now
            _LOG.warning("cannot store %s (%s); going on without", folder, reason_of(error))
        for _ in blocks:  # whoever does not write still computes its share
            pass
        self.ranks.wait()


def perceptual(request: PairRequest) -> PairSource:
    """Pair images that a pretrained classifier sees as alike.

    [PAIR]  with r the features before the classifier's last layer.
    """
    features, key = _perceptual_features(request)
    return _nearest("perceptual", request, features, key)


def perceptual_in_class(request: PairRequest) -> PairSource:
    """Pair images of the same class that a pretrained classifier sees as alike."""
    labels = request.labels("perceptual-in-class")
    features, key = _perceptual_features(request)
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
    found = read_given(request.given, request.split, request.n_neighbours)
    if isinstance(found, ListedPartners):
        return PairSource("given", found, request.rows)
    return PairSource("given", ListedPartners.from_table(found), request.rows, neighbours=found)


def _perceptual_features(
    request: PairRequest,
) -> tuple[Float[Tensor, "n f"], dict[str, Any] | None]:
    """Give one row of features per image of the split, and their name in the cache.

    Features of a user's own function have no name and are computed each time.
    """
    wanted = request.features
    if isinstance(wanted, np.ndarray | Tensor):
        features = _rows_of(wanted, request, "features")
        return features, {"features": digest_rows(features.numpy())}
    if isinstance(wanted, str):
        backbones = known_backbones()
        if wanted not in backbones:
            raise UserError(
                f"features={wanted!r} is not a backbone; choose one of {', '.join(backbones)}, "
                "a function of images, or an array with one row per image"
            )
        size = request.input_size or input_size_for(request.dataset.image_size)
        extractor = backbones[wanted](size, request.weights, request.cache_dir)
    else:
        extractor = FeatureExtractor(wanted, _CALLABLE_BATCH, key=None)
    named = extractor.key is not None
    key = {**request.content_key(), "features": extractor.key} if named else None
    shared: Any = {"device": request.device, "ranks": request.ranks, "progress": request.progress}
    compute = partial(feature_blocks, request.dataset, request.rows, extractor, **shared)
    return request.cached("features", key, compute)[0], key


def _nearest(
    strategy: str,
    request: PairRequest,
    features: FeatureRows,
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
            "groups": None if groups is None else digest_rows(groups),
        }

    notes: dict[str, Any] = {"recall": None}
    shared: Any = {"ranks": request.ranks, "progress": request.progress}

    def compute() -> Iterator[Tensor]:
        k = request.n_neighbours
        if searches_exactly:
            yield nearest_neighbours(features, k, groups=groups, device=request.device, **shared)
        else:
            scratch = request.cache_dir / "pairs"
            table, notes["recall"] = approximate_neighbours(features, k, scratch=scratch, **shared)
            yield table

    table, kept = request.cached("neighbours", key, compute, lambda: notes)
    partners = ListedPartners.from_table(table)
    return PairSource(strategy, partners, request.rows, neighbours=table, recall=kept["recall"])


def _is_exact(request: PairRequest) -> bool:
    """Decide between exact and approximate search."""
    if request.search != "auto":
        return request.search == "exact"
    if len(request.rows) <= EXACT_LIMIT:
        return True
    if not missing_modules("faiss"):
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
    if table.ndim < 2:
        raise DataError(f"{name} has shape {tuple(table.shape)}; pass one row per image")
    table = table[request.split.choose(len(table), name)]
    table = table.flatten(1)
    is_known_to_numpy = table.dtype in (torch.float16, torch.float32, torch.float64)
    return table if is_known_to_numpy else table.float()
