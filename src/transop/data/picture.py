"""Decode image files, and bring images to one square size."""

import contextlib
import logging
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
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

_ENDINGS = "png jpg jpeg jpe bmp dib gif webp tif tiff ppm pgm pbm pnm tga jp2 avif"
EXTENSIONS = frozenset(f".{ending}" for ending in _ENDINGS.split(" "))
# A 60-megapixel photograph is real; a file that unpacks to more is refused before unpacking.
MOST_PIXELS = 2**26
GREY_MODES = frozenset(("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N", "F"))
# Only these Pillow decoders run: others (EPS, say) would start external programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "TGA", "JPEG2000", "AVIF", "DIB")


class UnreadablePicture(Exception):
    """A file is no picture, or a damaged or dangerous one; the message says which."""


@dataclass(frozen=True)
class Header:
    """What a file says about its picture before any pixel is decoded."""

    shorter_side: int
    is_square: bool
    is_grey: bool


def read_header(stream: IO[bytes]) -> Header:
    """Read size and colour of a picture without decoding it."""
    with _Trouble(), _open(stream) as picture:
        is_square, is_grey = picture.width == picture.height, picture.mode in GREY_MODES
        return Header(min(picture.size), is_square, is_grey)


def read_picture(
    stream: IO[bytes], size: int, channels: int, *, fit: Fit = "crop", crop: Crop | None = None
) -> UInt8[np.ndarray, "channels size size"]:
    """Decode a picture, turn it upright, crop or pad it to a square and resize it.

    Transparency is laid over white; of an animation the first frame is taken; 16-bit values keep
    their upper 8 bits; CMYK, palettes and other colour models become RGB.

    ``size`` is the wanted height and width; ``fit`` and ``crop`` say which part is kept (see
    `kept_part`). What is no picture, damaged or too large raises `UnreadablePicture`.
    """
    with _Trouble(), _open(stream) as picture:
        if crop is None:
            picture.draft(None, (2 * size, 2 * size))  # lets JPEG decode at a fraction of its size
        picture.load()
        with contextlib.suppress(Exception):  # EXIF of damaged files raises almost anything
            ImageOps.exif_transpose(picture, in_place=True)
        return square_pixels(picture, size, channels, fit=fit, crop=crop)


def square_pixels(
    picture: Image.Image, size: int, channels: int, *, fit: Fit = "crop", crop: Crop | None = None
) -> UInt8[np.ndarray, "channels size size"]:
    """Turn a decoded picture into pixels of the wanted shape, as `read_picture` does."""
    picture = _flatten(picture).convert("L" if channels == 1 else "RGB")
    box, padded = kept_part(picture.width, picture.height, fit, crop)
    if box != (0, 0, *picture.size):
        picture = picture.crop(box)
    if padded:
        scale = size / max(picture.size)
        inner = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        square = Image.new(picture.mode, (size, size))
        resized = picture.resize(inner, Image.Resampling.BILINEAR)
        square.paste(resized, ((size - inner[0]) // 2, (size - inner[1]) // 2))
    else:  # hands back a copy where the size fits
        square = picture.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(square, dtype=np.uint8)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


class _Trouble:
    """Turns whatever a decoder throws at damaged bytes into one kind of error.

    A class and no generator: from Python 3.13 on, a generator's frames would keep the bytes alive
    until the garbage collector finds them.
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Let through what is no decoder's: a crop that does not fit is the user's mistake."""
        # decoders raise OSError, SyntaxError, struct.error, ... at will
        if isinstance(error, Exception) and not isinstance(error, UnreadablePicture | DataError):
            raise UnreadablePicture(_in_plain_words(error)) from None


def _in_plain_words(error: Exception) -> str:
    """Say what is wrong with a file; decoders name their own objects instead."""
    if isinstance(error, UnidentifiedImageError):
        return "it is no picture, or of a kind that is not read"
    if isinstance(error, Image.DecompressionBombError):
        return "it would unpack to far more pixels than a picture has (a decompression bomb)"
    text = str(error).split("\n")[0]
    if isinstance(error, EOFError) or "truncated" in text.lower():
        return "it is cut short"
    detail = text if text and len(text) < 80 and "<" not in text else type(error).__name__
    return f"it is damaged ({detail})"


def _open(stream: IO[bytes]) -> Image.Image:
    picture = Image.open(stream, formats=_FORMATS)
    if picture.width * picture.height > MOST_PIXELS:
        raise UnreadablePicture(
            f"{picture.width} x {picture.height} pixels are more than {MOST_PIXELS:,}: "
            "a decompression bomb, or an image to shrink first"
        )
    if min(picture.size) < 1:
        raise UnreadablePicture("it has no pixels")
    return picture


def _flatten(picture: Image.Image) -> Image.Image:
    """Bring deep and transparent modes to plain 8-bit ones."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture)
        if not np.isfinite(values).all():
            raise UnreadablePicture("it contains NaN or infinity")
        # 16-bit integers; floats count as 0 to 1 if none is larger, else as 0 to 255.
        top = 65535.0 if picture.mode != "F" else 1.0 if values.max() <= 1 else 255.0
        return Image.fromarray(np.rint(np.clip(values / top, 0, 1) * 255).astype(np.uint8))
    if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        colours = picture.convert("RGBA")
        white = Image.new("RGBA", colours.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, colours)
    return picture


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

    Images that already fit are handed back as they are, memory map and all; None keeps the side of
    the square, or the channels. ``fit`` and ``crop`` say which part is kept (see `kept_part`).
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
        if chunk.shape[1] > wanted:
            chunk = (chunk * torch.tensor(_LUMA).reshape(1, 3, 1, 1)).sum(dim=1, keepdim=True)
        chunk = chunk.expand(-1, wanted, -1, -1)
        if tuple(chunk.shape[2:]) != inner:
            chunk = functional.interpolate(chunk, size=inner, mode="bilinear", antialias=True)
        pixels = chunk.round().clamp(0, 255).to(torch.uint8).numpy()
        place = converted[start : start + _CHUNK, :, top : top + inner[0], left : left + inner[1]]
        place[...] = pixels
    return converted
