"""Bring images to one square size: which part of an image is kept, and how it is resized."""

from __future__ import annotations

import logging
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from torch.nn import functional

from transop.config import CROPS, check_crop
from transop.errors import DataError
from transop.inputs import check_choice, check_whole

_log = logging.getLogger(__name__)

SMALLEST_SIZE = 4
LARGEST_SIZE = 1024
_CHUNK = 1024
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, the weights Pillow uses for RGB to grey

Box = tuple[float, float, float, float]
Crop = int | str | Box
Fit = Literal["crop", "pad"]


def check_options(image_size: Any, channels: Any, fit: Any, crop: Any) -> None:
    """Refuse an impossible image size, number of channels, fit or crop."""
    if image_size is not None:
        check_whole("image_size", image_size, least=SMALLEST_SIZE, most=LARGEST_SIZE)
    if channels is not None and check_whole("channels", channels, least=1, most=3) == 2:
        raise DataError("channels = 2 is impossible; use 1 (grey) or 3 (colour)")
    check_choice("fit", fit, ("crop", "pad"))
    try:
        check_crop(crop)
    except ValueError as error:
        raise DataError(str(error)) from None


def kept_part(
    width: int, height: int, fit: Fit, crop: Crop | None
) -> tuple[tuple[int, int, int, int], bool]:
    """Find the part of an image that is kept: left, top, right and bottom, in whole pixels.

    Also say whether the part is padded to a square; if not, it is stretched to one. A crop is the
    side of the central square in pixels, a name of ``CROPS`` or a box of shares.
    """
    if isinstance(crop, str | tuple | list):
        shares = CROPS[crop] if isinstance(crop, str) else crop
        left, right = round(shares[0] * width), round(shares[2] * width)
        top, bottom = round(shares[1] * height), round(shares[3] * height)
        return (left, top, max(right, left + 1), max(bottom, top + 1)), False
    if crop is None and fit == "pad":
        return (0, 0, width, height), width != height
    side = min(width, height) if crop is None else crop
    if side > min(width, height):
        raise DataError(
            f"crop={crop} does not fit into images of {width} x {height} pixels; "
            f"use at most {min(width, height)}"
        )
    left, top = (width - side) // 2, (height - side) // 2
    return (left, top, left + side, top + side), False


def conform(
    images: UInt8[np.ndarray, "n c h w"],
    image_size: int | None = None,
    channels: int | None = None,
    fit: Fit = "crop",
    crop: Crop | None = None,
) -> UInt8[np.ndarray, "n channels size size"]:
    """Crop or pad images to squares, resize with antialiasing and convert the colours.

    Images that already fit are handed back as they are, memory map and all.

    Args:
        images: any height and width, one or three channels.
        image_size: wanted size; ``None`` keeps the side of the square.
        channels: wanted channels; ``None`` keeps them.
        fit: what becomes of images that are not square; padding is black.
        crop: which part to keep, see `kept_part`.

    Returns:
        Images of the wanted shape.
    """
    height, width = images.shape[2:]
    (left, top, right, bottom), padded = kept_part(width, height, fit, crop)
    part = images
    if (right - left, bottom - top) != (width, height):
        part = images[:, :, top:bottom, left:right]
        _log.warning(
            "images are %d x %d: keeping the part of %d x %d", height, width, *part.shape[2:]
        )
    sides = part.shape[2:]
    size = image_size or (max(sides) if padded else min(sides))
    wanted = part.shape[1] if channels is None else channels
    if part.shape[1:] == (wanted, size, size):
        return part
    converted = np.zeros((len(part), wanted, size, size), dtype=np.uint8)
    inner = tuple(max(1, round(side * size / max(sides))) if padded else size for side in sides)
    top, left = (size - inner[0]) // 2, (size - inner[1]) // 2
    for start in range(0, len(part), _CHUNK):
        chunk = torch.from_numpy(np.array(part[start : start + _CHUNK])).float()
        chunk = _recolour(chunk, wanted)
        if tuple(chunk.shape[2:]) != inner:
            chunk = functional.interpolate(chunk, size=inner, mode="bilinear", antialias=True)
        pixels = chunk.round().clamp(0, 255).to(torch.uint8).numpy()
        place = converted[start : start + _CHUNK, :, top : top + inner[0], left : left + inner[1]]
        place[...] = pixels
    return converted


def _recolour(chunk: torch.Tensor, channels: int) -> torch.Tensor:
    """Repeat grey into three channels, or weigh three into grey."""
    if chunk.shape[1] == channels:
        return chunk
    if channels == 3:
        return chunk.expand(-1, 3, -1, -1)
    weights = torch.tensor(_LUMA).reshape(1, 3, 1, 1)
    return (chunk * weights).sum(dim=1, keepdim=True)
