"""Read the idx format of MNIST and its relatives, one file or a whole folder."""

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
from jaxtyping import UInt8

from transop.data.arrays import Part, dataset_from_parts
from transop.data.dataset import ImageDataset
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import reason_of, require_regular

_UNSIGNED_BYTE = 0x08
_BLOCK = 2**20
_VALIDATION_SHARE = 6  # one training image in six is held out, as the paper does for MNIST


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


def is_idx_folder(root: Path) -> bool:
    """Say whether a folder holds training images in idx format."""
    return _find(root, "train-images-idx3-ubyte") is not None


def load_idx_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load a folder with the file names of MNIST; labels and test files may be missing.

    Args:
        root: the folder.
        request: wanted shape and seed.

    Returns:
        The images; with test files, the last sixth of the training images is for validation,
        without, the split is 80/10/10.
    """
    request.refuse_options(f"folder {root.name}")
    paths = {
        name: path
        for part in ("train", "t10k")
        for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        if (path := _find(root, name)) is not None
    }
    return dataset_from_idx(paths, root.resolve().name, f"folder {root}", request)


def dataset_from_idx(
    paths: dict[str, Path],
    name: str,
    source: str,
    request: DatasetRequest,
    class_names: tuple[str, ...] | None = None,
) -> ImageDataset:
    """Put the files of an MNIST-like set together.

    Args:
        paths: by MNIST's names, compressed or not; all but the training images may be missing.
        name: the data set.
        source: where it comes from, in words.
        request: wanted shape and seed.
        class_names: one per label.
    """
    arrays = {key: _read(path) for key, path in paths.items()}
    images, labels = arrays["train-images-idx3-ubyte"], arrays.get("train-labels-idx1-ubyte")
    parts = [Part(None, images, labels, "the training files")]
    if "t10k-images-idx3-ubyte" in arrays:
        if labels is not None and len(labels) != len(images):
            raise DataError(
                f"{name}: train-labels-idx1-ubyte has {len(labels)} entries for {len(images)} "
                "images; fetch it again"
            )
        first = len(images) - len(images) // _VALIDATION_SHARE
        cuts = {"train": slice(None, first), "validation": slice(first, None)}
        parts = [
            Part(split, images[rows], None if labels is None else labels[rows], f"the {split} part")
            for split, rows in cuts.items()
            if len(images[rows])
        ]
        test = arrays["t10k-images-idx3-ubyte"]
        parts.append(Part("test", test, arrays.get("t10k-labels-idx1-ubyte"), "the test files"))
    return dataset_from_parts(parts, name, source, request, class_names)


def _find(root: Path, name: str) -> Path | None:
    return next((p for p in (root / name, root / f"{name}.gz") if p.exists()), None)


def _read(path: Path) -> np.ndarray:
    try:
        require_regular(path)
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return read_idx(cast(IO[bytes], stream), path.name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name} is unreadable ({error}); fetch it again") from None
    except OSError as error:
        raise DataError(f"{path.name} is unreadable ({reason_of(error)})") from None
