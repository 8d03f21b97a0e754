"""SVHN: 99,289 colour house numbers, 32 x 32, cropped to one digit."""

from pathlib import Path

import numpy as np

from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.download import mirror
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, PublishedFile, obtain
from transop.data.splits import consecutive_splits, random_order
from transop.errors import DataError

_TRAIN = PublishedFile(
    "train_32x32.mat",
    "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    182_040_794,
)
_TEST = PublishedFile(
    "test_32x32.mat",
    "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    64_275_384,
)
_N_VALIDATION = 7_257  # leaves 66,000 of the 73,257 training images
_MIRROR = "http://ufldl.stanford.edu/housenumbers/"

CATALOGUE = Catalogue(
    name="svhn",
    files=(_TRAIN, _TEST),
    places=(),
    suppliers=(mirror(_MIRROR, (_TRAIN.name, _TEST.name)),),
    remedy=(
        "curl -fL --create-dirs --output-dir '{folder}' --remote-name-all "
        f"{_MIRROR}{_TRAIN.name} {_MIRROR}{_TEST.name}"
    ),
)


def load_svhn(request: DatasetRequest) -> ImageDataset:
    """Load SVHN: 99,289 house-number digits, 32 x 32, colour; 66,000/7,257/26,032."""
    request.refuse_options("svhn")
    obtained = obtain(CATALOGUE, request)
    train_images, train_labels = read_mat(obtained.paths[_TRAIN.name])
    test_images, test_labels = read_mat(obtained.paths[_TEST.name])
    # The training images come street by street: mix them before the validation cut.
    order = random_order(len(train_labels), train_labels, seed=0)
    sizes = {
        "train": len(order) - _N_VALIDATION,
        "validation": _N_VALIDATION,
        "test": len(test_labels),
    }
    return ImageDataset(
        images=request.conform(np.concatenate([train_images[order], test_images])),
        labels=np.concatenate([train_labels[order], test_labels]),
        splits=consecutive_splits(sizes),
        meta=DatasetMeta(
            "svhn",
            obtained.source,
            tuple(str(digit) for digit in range(10)),
            sources_tried=obtained.tried,
        ),
    )


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images (32, 32, 3, n) and labels (10 stands for the digit 0) from a Matlab file.

    Args:
        path: the file.

    Returns:
        Images, channels first, and class numbers.
    """
    from scipy.io import loadmat  # slow to import, and only needed here

    try:
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
    except Exception as error:  # scipy raises many kinds of error on damaged files
        raise DataError(
            f"{path.name} is damaged or no Matlab file ({error}); fetch it again"
        ) from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != len(labels):
        raise DataError(f"{path.name} has images of shape {images.shape}; fetch it again")
    return images.transpose(3, 2, 0, 1), labels % 10
