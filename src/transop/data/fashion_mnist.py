"""Fashion-MNIST: 70,000 pictures of clothes, 28 x 28, grey."""

from pathlib import Path

from transop.data.dataset import ImageDataset
from transop.data.download import mirror
from transop.data.files import PublishedFile
from transop.data.idx import dataset_from_idx
from transop.data.packages import debian_package
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, Place, obtain

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_FILES = (
    PublishedFile(
        "train-images-idx3-ubyte",
        "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        47_040_016,
    ),
    PublishedFile(
        "train-labels-idx1-ubyte",
        "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        60_008,
    ),
    PublishedFile(
        "t10k-images-idx3-ubyte",
        "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        7_840_016,
    ),
    PublishedFile(
        "t10k-labels-idx1-ubyte",
        "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        10_008,
    ),
)
_COMPRESSED = tuple(f"{file.name}.gz" for file in _FILES)
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_MIRRORS = (
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


def _installed() -> Path | None:
    return _DEBIAN_FOLDER if _DEBIAN_FOLDER.is_dir() else None


CATALOGUE = Catalogue(
    name="fashion-mnist",
    files=_FILES,
    places=(Place("installed Debian package dataset-fashion-mnist", _installed),),
    suppliers=(
        *(mirror(base, _COMPRESSED) for base in _MIRRORS),
        debian_package("dataset-fashion-mnist", _COMPRESSED),
    ),
    remedy=(
        "curl -fL --create-dirs --output-dir '{folder}' --remote-name-all "
        + " ".join(_MIRRORS[0] + name for name in _COMPRESSED)
        + "  (on Debian and Ubuntu also: sudo apt-get install dataset-fashion-mnist)"
    ),
)


def load_fashion_mnist(request: DatasetRequest) -> ImageDataset:
    """Load Fashion-MNIST: 70,000 clothes, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    request.refuse_options("fashion-mnist")
    return dataset_from_idx(obtain(CATALOGUE, request), _FILES, "fashion-mnist", CLASS_NAMES)
