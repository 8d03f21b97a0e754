"""Published data sets: their files found, fetched and checked, then read."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from transop.data import (
    SPLIT_NAMES,
    DatasetMeta,
    DatasetRequest,
    ImageDataset,
    consecutive_splits,
)
from transop_paper.published.download import SourceUnavailable
from transop_paper.published.sources import Catalogue, PublishedFile, obtain

__all__ = [
    "Catalogue",
    "ImagesAndLabels",
    "PublishedFile",
    "SourceUnavailable",
    "load_published",
    "obtain",
]

ImagesAndLabels = tuple[UInt8[np.ndarray, "n c h w"], Int64[np.ndarray, " n"]]


def load_published(
    catalogue: Catalogue,
    read: Callable[[dict[str, Path]], ImagesAndLabels],
    sizes: tuple[int, int, int],
    class_names: tuple[str, ...],
    request: DatasetRequest,
) -> ImageDataset:
    """Find or fetch the files of a set and read them, in the order train, validation, test."""
    request.refuse_options(catalogue.name)
    obtained = obtain(catalogue, request)
    images, labels = read(obtained.paths)
    splits = consecutive_splits(dict(zip(SPLIT_NAMES, sizes, strict=True)))
    meta = DatasetMeta(catalogue.name, obtained.source, class_names, sources_tried=obtained.tried)
    return ImageDataset(request.conform(images), labels, splits, meta)
