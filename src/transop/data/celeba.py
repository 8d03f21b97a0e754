"""CelebA: 202,599 aligned celebrity faces with 40 attributes, read from their published files.

The licence forbids passing the images on, so they are never downloaded here: the user brings
the folder or the zip, and every error says which file is missing and where it is published.
"""

import hashlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError

from transop.data.celeba_files import CelebaFiles, locate_celeba
from transop.data.celeba_layout import (
    ATTRIBUTES_FILE,
    PARTITION_FILE,
    AttributeTable,
    parse_attributes,
    parse_partition,
)
from transop.data.dataset import SPLIT_NAMES, DatasetMeta, ImageDataset
from transop.data.pixel_cache import build_pixels, open_pixels
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.progress import Progress

_log = logging.getLogger(__name__)

DEFAULT_SIZE = 64
PAPER_TRAIN = 150_000
SPLITS = ("paper", "official")
_BLOCK = 512
_NAMED = 20  # unreadable images named in a note; the log names all


def load_celeba(request: DatasetRequest) -> ImageDataset:
    """Load CelebA: aligned faces, centre-cropped and resized to 64 x 64, with 40 attributes.

    The pixels are decoded once into a memory-mapped cache; unreadable images are left out,
    counted and named.

    Options: ``split`` is ``"paper"`` (train on the first 150,000 images) or ``"official"``;
    ``crop`` is the side of the central square in pixels (all of the shorter side if not given).

    Differs from the paper: it keeps only a training and a test set; here CelebA's own
    validation images serve as validation set, and those between are left out.
    """
    request.refuse_options("celeba", ("split", "crop"))
    split, crop = request.options.get("split", "paper"), request.options.get("crop")
    if split not in SPLITS:
        raise DataError(f"split={split!r} does not exist; choose one of {', '.join(SPLITS)}")
    size = request.image_size or DEFAULT_SIZE
    with locate_celeba(request) as files:
        table = parse_attributes(files.read_text(ATTRIBUTES_FILE), ATTRIBUTES_FILE)
        parts = parse_partition(files.read_text(PARTITION_FILE), table.files, PARTITION_FILE)
        factors, factor_names = files.read_factors(len(table.files))
        images, unreadable = _pixels(files, table, _Decoder(size, crop), request)
    left_out = set(unreadable)
    kept = np.array([i for i, file in enumerate(table.files) if file not in left_out])
    return ImageDataset(
        images=images,
        labels=None,
        splits=_splits(parts[kept], split),
        meta=DatasetMeta(
            "celeba",
            str(files.root),
            attribute_names=table.names,
            factor_names=factor_names,
            notes=_notes(unreadable, len(table.files)),
        ),
        attributes=table.values[kept],
        factors=None if factors is None else factors[kept],
    )


def _splits(parts: np.ndarray, split: str) -> dict[str, np.ndarray]:
    """Turn parts 0, 1, 2 into splits; the paper's training set is the first 150,000 images."""
    splits = {name: np.flatnonzero(parts == i) for i, name in enumerate(SPLIT_NAMES)}
    if split == "paper":
        splits["train"] = splits["train"][:PAPER_TRAIN]
    if not len(splits["train"]):
        raise DataError(f"'{PARTITION_FILE}' puts no image into the training part (0)")
    return {name: rows.astype(np.int64) for name, rows in splits.items() if len(rows)}


def _notes(unreadable: list[str], n_files: int) -> tuple[str, ...]:
    if not unreadable:
        return ()
    named = ", ".join(unreadable[:_NAMED]) + (", ..." if len(unreadable) > _NAMED else "")
    return (f"{len(unreadable)} of {n_files} images are unreadable and left out: {named}",)


@dataclass(frozen=True)
class _Decoder:
    """Turns an encoded image into a cropped and resized one."""

    size: int
    crop: int | None

    def __call__(self, encoded: bytes) -> UInt8[np.ndarray, "3 s s"] | None:
        """Decode an image; ``None`` where it is cut short or no image."""
        try:
            with Image.open(BytesIO(encoded)) as opened:
                picture = opened.convert("RGB")
        except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError):
            return None
        side = min(picture.size) if self.crop is None else self.crop
        if not 1 <= side <= min(picture.size):
            width, height = picture.size
            raise DataError(
                f"crop={side} does not fit into images of {width} x {height} pixels; "
                f"use at most {min(picture.size)}"
            )
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        square = picture.crop((left, top, left + side, top + side))
        resized = square.resize((self.size, self.size), Image.Resampling.BILINEAR)
        return np.asarray(resized).transpose(2, 0, 1)


def _pixels(
    files: CelebaFiles, table: AttributeTable, decoder: _Decoder, request: DatasetRequest
) -> tuple[UInt8[np.ndarray, "n 3 s s"], list[str]]:
    """Map the cached pixels, decoding all images first if that was not done yet."""
    files.require_images(table.files)
    key = hashlib.sha256(f"{files.fingerprint()} {decoder}".encode())
    key.update("\n".join(table.files).encode())
    folder = request.cache_dir / "celeba" / key.hexdigest()[:16]
    cached = open_pixels(folder)
    if cached is None:
        unreadable: list[str] = []
        blocks = _decode_all(files, table.files, decoder, unreadable, request.progress)
        shape = (3, decoder.size, decoder.size)
        build_pixels(folder, shape, blocks, lambda: {"unreadable": unreadable})
        cached = open_pixels(folder)
        assert cached is not None
    images, notes = cached
    return images, list(notes["unreadable"])


def _decode_all(
    files: CelebaFiles,
    names: tuple[str, ...],
    decoder: _Decoder,
    unreadable: list[str],
    progress: Progress,
) -> Iterator[UInt8[np.ndarray, "block 3 s s"]]:
    """Decode images in order, block by block, collecting the names of unreadable ones."""
    starts = range(0, len(names), _BLOCK)
    with ThreadPoolExecutor() as pool:
        for start in progress(starts, "reading CelebA", len(starts)):
            block = names[start : start + _BLOCK]
            decoded = list(pool.map(lambda name: decoder(files.read_image(name)), block))
            for name, image in zip(block, decoded, strict=True):
                if image is None:
                    _log.warning("%s is unreadable (cut short or no image): left out", name)
                    unreadable.append(name)
            good = [image for image in decoded if image is not None]
            if good:
                yield np.stack(good)
    if len(unreadable) == len(names):
        raise DataError(f"none of the {len(names)} images in '{files.root}' can be read")
