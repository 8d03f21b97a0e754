"""Read the idx format of MNIST and its relatives, one file or a whole folder."""

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
from jaxtyping import UInt8

from transop.data.arrays import Part, dataset_from_parts, labels_from_array
from transop.data.dataset import ImageDataset
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import reason_of, require_regular

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_UNSIGNED_BYTES = b"\0\0\x08"
_BLOCK = 2**20
_VALIDATION_SHARE = 6  # one training image in six is held out, as the paper does for MNIST


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


def is_idx_folder(root: Path) -> bool:
    """Say whether a folder holds training images in idx format."""
    return _find(root, IDX_NAMES[0]) is not None


def load_idx_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load a folder with the file names of MNIST; labels and test files may be missing.

    With test files, the last sixth of the training images is for validation; without, the split
    is 80/10/10.
    """
    request.refuse_options(f"folder {root.name}")
    found = [_find(root, name) for name in IDX_NAMES]
    images, labels, test, test_labels = (
        None if path is None else read_idx_file(path) for path in found
    )
    assert images is not None  # is_idx_folder found them
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
