"""Drawn faces on disk, in the layout in which CelebA is published."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from transop.data import SPLIT_NAMES, consecutive_splits, split_sizes
from transop.errors import DataError
from transop.progress import Progress, silent
from transop_paper.celeba import CELEBA_ATTRIBUTES
from transop_paper.faces.dataset import (
    DEFAULT_FACES,
    DEFAULT_SIZE,
    draw_blocks,
    face_attributes,
    sample_rows,
)
from transop_paper.faces.drawing import FACTOR_NAMES

_IMAGES = "img_align_celeba"
_JPEG_QUALITY = 95


def write_faces(
    folder: str | Path,
    n_images: int = DEFAULT_FACES,
    *,
    seed: int = 0,
    size: int | tuple[int, int] = DEFAULT_SIZE,
    progress: Progress = silent,
) -> Path:
    """Write drawn faces to disk in CelebA's layout, plus ``factors.npz``.

    The folder must not exist yet, or be empty. ``size`` is one side, or (height, width):
    CelebA's own is (218, 178).
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"folder='{folder}' is not empty; name a new folder for the faces")
    factors = sample_rows(n_images, seed)
    parent = folder.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=parent) as scratch:
        whole = Path(scratch) / "faces"
        (whole / _IMAGES).mkdir(parents=True)
        _write_images(whole / _IMAGES, draw_blocks(factors, size, progress))
        _write_tables(whole, factors)
        if folder.exists():
            folder.rmdir()
        whole.rename(folder)
    return folder


def _write_images(folder: Path, blocks: Iterator[UInt8[np.ndarray, "n 3 h w"]]) -> None:
    """Encode blocks of images as numbered JPEG files on several threads."""

    def write(path: Path, image: UInt8[np.ndarray, "3 h w"]) -> None:
        picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
        picture.save(path, "JPEG", quality=_JPEG_QUALITY, subsampling=0)

    done = 0
    with ThreadPoolExecutor() as pool:
        for block in blocks:
            paths = [folder / _image_name(done + i) for i in range(len(block))]
            list(pool.map(write, paths, block))
            done += len(block)


def _write_tables(folder: Path, factors: Float[np.ndarray, "n f"]) -> None:
    """Write attributes (count, names, one row per file) and partition as CelebA does."""
    attributes = [
        f"{_image_name(i)} " + " ".join(f"{value:2d}" for value in row)
        for i, row in enumerate(face_attributes(factors).tolist())
    ]
    head = [str(len(factors)), " ".join(CELEBA_ATTRIBUTES) + " "]
    table = "\n".join([*head, *attributes]) + "\n"
    (folder / "list_attr_celeba.txt").write_text(table, "utf-8")
    parts = np.zeros(len(factors), dtype=np.int64)
    for split, rows in consecutive_splits(split_sizes(len(factors))).items():
        parts[rows] = SPLIT_NAMES.index(split)
    lines = [f"{_image_name(i)} {part}\n" for i, part in enumerate(parts.tolist())]
    (folder / "list_eval_partition.txt").write_text("".join(lines), "utf-8")
    np.savez_compressed(folder / "factors.npz", factors=factors, names=np.array(FACTOR_NAMES))


def _image_name(index: int) -> str:
    """Name the image with this index; CelebA counts from 1."""
    return f"{index + 1:06d}.jpg"
