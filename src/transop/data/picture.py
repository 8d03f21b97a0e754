"""Decode one image file of any kind into a small square of bytes."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from transop.data.conform import Crop, Fit, kept_part
from transop.errors import DataError

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
    with _trouble(), _open(stream) as picture:
        is_square, is_grey = picture.width == picture.height, picture.mode in GREY_MODES
        return Header(min(picture.size), is_square, is_grey)


def read_picture(
    stream: IO[bytes], size: int, channels: int, *, fit: Fit = "crop", crop: Crop | None = None
) -> UInt8[np.ndarray, "channels size size"]:
    """Decode a picture, turn it upright, crop or pad it to a square and resize it.

    Transparency is laid over white; of an animation the first frame is taken; 16-bit values keep
    their upper 8 bits; CMYK, palettes and other colour models become RGB.

    Args:
        stream: the file's bytes.
        size: wanted height and width.
        channels: 1 for grey, 3 for colour.
        fit: what becomes of a picture that is not square.
        crop: which part to keep; see `transop.data.conform.kept_part`.

    Returns:
        The pixels, channels first.

    Raises:
        UnreadablePicture: it is no picture, a damaged one or too large.
    """
    with _trouble(), _open(stream) as opened:
        if crop is None:
            opened.draft(None, (2 * size, 2 * size))  # lets JPEG decode at a fraction of its size
        return square_pixels(_upright(opened), size, channels, fit=fit, crop=crop)


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


@contextlib.contextmanager
def _trouble() -> Iterator[None]:
    """Turn whatever a decoder throws at damaged bytes into one kind of error."""
    try:
        yield
    except (UnreadablePicture, DataError):  # a crop that does not fit is the user's mistake
        raise
    except Exception as error:  # decoders raise OSError, SyntaxError, struct.error, ... at will
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


def _upright(picture: Image.Image) -> Image.Image:
    """Undo the rotation a camera noted in the EXIF data; a damaged note is ignored."""
    picture.load()
    with contextlib.suppress(Exception):  # EXIF of damaged files raises almost anything
        ImageOps.exif_transpose(picture, in_place=True)
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
