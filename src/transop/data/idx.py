"""Read the idx format of MNIST and its relatives."""

import math
from collections.abc import Sequence
from typing import IO

import numpy as np
from jaxtyping import UInt8

from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.files import PublishedFile
from transop.data.sources import Obtained
from transop.data.splits import consecutive_splits
from transop.errors import DataError

PAPER_SPLITS = {"train": 50_000, "validation": 10_000, "test": 10_000}
_UNSIGNED_BYTE = 0x08
_BLOCK = 2**20


def read_idx(stream: IO[bytes], name: str) -> UInt8[np.ndarray, "..."]:
    """Read one array of unsigned bytes: a magic number, the sizes, then the values.

    Args:
        stream: positioned at the start of the (uncompressed) file.
        name: what to call the file in messages.

    Returns:
        The array, with one to four axes.
    """
    magic = stream.read(4)
    if (
        len(magic) < 4
        or magic[:2] != b"\0\0"
        or magic[2] != _UNSIGNED_BYTE
        or not 1 <= magic[3] <= 4
    ):
        raise DataError(
            f"{name} is no idx file of unsigned bytes (it starts with {magic.hex() or 'nothing'}, "
            "not 0000080x); fetch it again"
        )
    header = stream.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise DataError(f"{name} ends inside its idx header; fetch it again")
    shape = tuple(int(size) for size in np.frombuffer(header, dtype=">u4"))
    content = _read_at_most(stream, math.prod(shape) + 1)
    if len(content) != math.prod(shape):
        raise DataError(
            f"{name} should hold {math.prod(shape)} values of shape {shape} but holds "
            f"{'more' if len(content) > math.prod(shape) else len(content)}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _read_at_most(stream: IO[bytes], limit: int) -> bytearray:
    """Read a block at a time what is there: the header may claim terabytes."""
    content = bytearray()
    while len(content) < limit and (block := stream.read(min(_BLOCK, limit - len(content)))):
        content += block
    return content


def dataset_from_idx(
    obtained: Obtained, files: Sequence[PublishedFile], name: str, class_names: tuple[str, ...]
) -> ImageDataset:
    """Put the four files of an MNIST-like set together, with the paper's splits.

    The last 10,000 of the 60,000 training images are the validation split.

    Args:
        obtained: the verified files.
        files: training images, training labels, test images, test labels, in this order.
        name: the data set.
        class_names: one per label.

    Returns:
        70,000 images: 50,000 to train, 10,000 to validate, 10,000 to test.
    """
    arrays = []
    for file in files:
        with file.open(obtained.paths[file.name]) as stream:
            arrays.append(read_idx(stream, file.name))
    train_images, train_labels, test_images, test_labels = arrays
    return ImageDataset(
        images=np.concatenate([train_images, test_images])[:, None],
        labels=np.concatenate([train_labels, test_labels]).astype(np.int64),
        splits=consecutive_splits(PAPER_SPLITS),
        meta=DatasetMeta(name, obtained.source, class_names, sources_tried=obtained.tried),
    )
