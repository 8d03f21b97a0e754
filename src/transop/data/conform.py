"""Bring whole stacks of images to one square size and number of channels."""

import logging

import numpy as np
import torch
from jaxtyping import UInt8
from torch.nn import functional

from transop.errors import DataError

_log = logging.getLogger(__name__)

SMALLEST_SIZE = 4
LARGEST_SIZE = 1024
_CHUNK = 1024
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, the weights Pillow uses for RGB to grey


def check_wishes(image_size: int | None, channels: int | None) -> None:
    """Refuse an impossible image size or number of channels.

    Args:
        image_size: wanted height and width, or ``None``.
        channels: wanted channels, or ``None``.
    """
    whole = isinstance(image_size, int) and not isinstance(image_size, bool)
    if image_size is not None and not (whole and SMALLEST_SIZE <= image_size <= LARGEST_SIZE):
        raise DataError(
            f"image_size={image_size!r} is impossible; "
            f"use a whole number from {SMALLEST_SIZE} to {LARGEST_SIZE}"
        )
    if channels not in (None, 1, 3):
        raise DataError(f"channels={channels!r} is impossible; use 1 (grey) or 3 (colour)")


def conform(
    images: UInt8[np.ndarray, "n c h w"], image_size: int | None, channels: int | None
) -> UInt8[np.ndarray, "n channels size size"]:
    """Crop to the central square, resize with antialiasing and convert the colours.

    Images that already fit are handed back as they are, memory map and all.

    Args:
        images: any height and width, one or three channels.
        image_size: wanted size; ``None`` keeps the shorter side.
        channels: wanted channels; ``None`` keeps them.

    Returns:
        Images of the wanted shape.
    """
    images = _central_square(images)
    size = images.shape[2] if image_size is None else image_size
    wanted = images.shape[1] if channels is None else channels
    if images.shape[1:] == (wanted, size, size):
        return images
    converted = np.empty((len(images), wanted, size, size), dtype=np.uint8)
    for start in range(0, len(images), _CHUNK):
        chunk = torch.from_numpy(np.array(images[start : start + _CHUNK])).float()
        chunk = _resize(_recolour(chunk, wanted), size)
        converted[start : start + _CHUNK] = chunk.round().clamp(0, 255).to(torch.uint8).numpy()
    return converted


def _central_square(images: np.ndarray) -> np.ndarray:
    """View the middle of images that are wider than high or higher than wide."""
    height, width = images.shape[2:]
    if height == width:
        return images
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    _log.warning(
        "images are %d x %d: keeping the central %d x %d square", height, width, side, side
    )
    return images[:, :, top : top + side, left : left + side]


def _recolour(chunk: torch.Tensor, channels: int) -> torch.Tensor:
    """Repeat grey into three channels, or weigh three into grey."""
    if chunk.shape[1] == channels:
        return chunk
    if channels == 3:
        return chunk.expand(-1, 3, -1, -1)
    weights = torch.tensor(_LUMA).reshape(1, 3, 1, 1)
    return (chunk * weights).sum(dim=1, keepdim=True)


def _resize(chunk: torch.Tensor, size: int) -> torch.Tensor:
    if chunk.shape[2] == size:
        return chunk
    return functional.interpolate(chunk, size=(size, size), mode="bilinear", antialias=True)
