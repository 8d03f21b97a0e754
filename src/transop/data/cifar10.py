"""CIFAR-10: 60,000 colour photographs, 32 x 32."""

import tarfile
from pathlib import PurePosixPath

import numpy as np

from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.download import mirror
from transop.data.request import DatasetRequest
from transop.data.sources import Catalogue, PublishedFile, obtain
from transop.data.splits import consecutive_splits
from transop.errors import DataError

_CLASSES = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"

# The binary version: the "python version" is a pickle, which could run code when opened.
_FILE = PublishedFile(
    "cifar-10-binary.tar.gz",
    "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    170_052_171,
)
_MEMBERS = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_RECORD = 1 + 3 * 32 * 32
_RECORDS = 10_000
_SPLITS = {"train": 45_000, "validation": 5_000, "test": 10_000}
_MIRRORS = (
    "https://www.cs.toronto.edu/~kriz/",
    "https://cave.cs.toronto.edu/kriz/",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
)

CATALOGUE = Catalogue(
    name="cifar10",
    files=(_FILE,),
    places=(),
    suppliers=tuple(mirror(base, (_FILE.name,)) for base in _MIRRORS),
    remedy=f"curl -fL --create-dirs --output-dir '{{folder}}' -O {_MIRRORS[0]}{_FILE.name}",
)


def load_cifar10(request: DatasetRequest) -> ImageDataset:
    """Load CIFAR-10: 60,000 photographs of 10 things, 32 x 32, colour; 45,000/5,000/10,000."""
    request.refuse_options("cifar10")
    obtained = obtain(CATALOGUE, request)
    images = np.empty((len(_MEMBERS) * _RECORDS, 3, 32, 32), dtype=np.uint8)
    labels = np.empty(len(images), dtype=np.int64)
    n_read = 0
    with tarfile.open(obtained.paths[_FILE.name]) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if name not in _MEMBERS:
                continue
            rows = slice(_MEMBERS.index(name) * _RECORDS, (_MEMBERS.index(name) + 1) * _RECORDS)
            labels[rows], images[rows] = read_batch(archive, member)
            n_read += 1
    if n_read != len(_MEMBERS):
        raise DataError(f"{_FILE.name} holds {n_read} of {len(_MEMBERS)} batches; fetch it again")
    names = tuple(_CLASSES.split(","))
    return ImageDataset(
        images=request.conform(images),
        labels=labels,
        splits=consecutive_splits(_SPLITS),
        meta=DatasetMeta("cifar10", obtained.source, names, sources_tried=obtained.tried),
    )


def read_batch(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[np.ndarray, np.ndarray]:
    """Read one batch of records: a label byte, then red, green and blue planes.

    Args:
        archive: the open tar file.
        member: the batch inside it.

    Returns:
        Labels and images.
    """
    stream = archive.extractfile(member)
    content = b"" if stream is None else stream.read(_RECORD * _RECORDS + 1)
    if len(content) != _RECORD * _RECORDS:
        raise DataError(
            f"{member.name} holds {len(content)} bytes, not {_RECORD * _RECORDS}; fetch it again"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(_RECORDS, _RECORD)
    return records[:, 0].astype(np.int64), records[:, 1:].reshape(-1, 3, 32, 32)
