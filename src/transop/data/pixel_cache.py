"""Pixels on disk as one memory-mapped file, built once and whole or not at all."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from transop.data.files import scratch_folder

_PIXELS = "pixels.u8"
_INDEX = "index.json"

Blocks = Iterable[UInt8[np.ndarray, "block channels size size"]]


def open_pixels(
    folder: Path,
) -> tuple[UInt8[np.ndarray, "n channels size size"], dict[str, Any]] | None:
    """Map cached pixels into memory, with the notes kept beside them.

    Returns:
        The images and the notes, or ``None`` where no complete cache is.
    """
    try:
        index = json.loads((folder / _INDEX).read_text("utf-8"))
        shape = tuple(index["shape"])
        if (folder / _PIXELS).stat().st_size != int(np.prod(shape)):
            return None
        images = np.memmap(folder / _PIXELS, dtype=np.uint8, mode="r", shape=shape)
    except (OSError, ValueError, KeyError):
        return None
    return images, dict(index["notes"])


def build_pixels(
    folder: Path,
    image_shape: tuple[int, int, int],
    blocks: Blocks,
    notes: Callable[[], dict[str, Any]],
) -> None:
    """Write blocks of images into a cache folder that appears only when it is complete.

    Args:
        folder: the cache folder; an incomplete one is replaced.
        image_shape: channels, height, width of every image.
        blocks: images in order; only one block is in memory at a time.
        notes: asked after the last block for what to keep beside the pixels.
    """
    with scratch_folder(folder.parent) as scratch:
        n = 0
        with (scratch / _PIXELS).open("wb") as file:
            for block in blocks:
                file.write(np.ascontiguousarray(block).data)
                n += len(block)
            file.flush()
            os.fsync(file.fileno())
        index = {"shape": [n, *image_shape], "notes": notes()}
        (scratch / _INDEX).write_text(json.dumps(index), "utf-8")
        complete = scratch / "complete"
        complete.mkdir()
        for name in (_PIXELS, _INDEX):
            (scratch / name).rename(complete / name)
        if folder.exists():
            folder.rename(scratch / "replaced")
        complete.rename(folder)
