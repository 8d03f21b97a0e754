"""What people bring to the page, files and drawings, turned into images or refused in a sentence.

Every file goes through the library's own picture reader, never through Gradio's, so that
decompression bombs are refused before a pixel is unpacked.
"""

from __future__ import annotations

import base64
import binascii
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Float
from torch import Tensor

from transop.data.picture import EXTENSIONS, UnreadablePicture, read_picture
from transop.errors import DataError
from transop.model import ManifoldAutoencoder

LARGEST_FILE = 20 * 2**20  # bytes of one upload, and of one unpacked member of a zip
MOST_IMAGES = 200
_LARGEST_ZIP = 10 * LARGEST_FILE  # bytes of all that a zip unpacks to
_LARGEST_DRAWING = 2**20
# What reading a damaged, encrypted or unusual member of a zip may raise.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
    NotImplementedError,
    EOFError,
    OSError,
)
_PREFIX = "data:image/png;base64,"


def read_bytes(content: bytes, name: str, model: ManifoldAutoencoder) -> Float[Tensor, "c h w"]:
    """Turn the bytes of an image file into an image as the model wants it.

    Args:
        content: the file.
        name: what to call it in an error.
        model: gives size and channels.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(f"'{name}' is larger than {LARGEST_FILE // 2**20} MB; shrink it first")
    channels, size, _ = model.image_shape
    try:
        pixels = read_picture(BytesIO(content), size, channels)
    except UnreadablePicture as error:
        raise DataError(f"'{name}' is not a readable image: {error}") from None
    return torch.from_numpy(pixels.copy()).float() / 255


def read_upload(file: str | Path, model: ManifoldAutoencoder) -> Float[Tensor, "c h w"]:
    """Read an uploaded image and remove the server's copy of it."""
    return read_bytes(_take(Path(file)), Path(file).name, model)


def read_drawing(text: object, model: ManifoldAutoencoder) -> Float[Tensor, "c h w"]:
    """Read a drawing that the page sends as a data address."""
    if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > _LARGEST_DRAWING:
        raise DataError("the drawing did not arrive whole; clear the canvas and draw again")
    try:
        content = base64.b64decode(text[len(_PREFIX) :], validate=True)
    except binascii.Error:
        raise DataError("the drawing did not arrive whole; draw again") from None
    return read_bytes(content, "drawing", model)


def read_collection(
    files: Sequence[str | Path], model: ManifoldAutoencoder
) -> tuple[dict[str, Float[Tensor, "c h w"]], list[str]]:
    """Read uploaded images and zips of images, removing the server's copies.

    Returns:
        The images by name, and a sentence for every file left out.
    """
    images: dict[str, Tensor] = {}
    complaints: list[str] = []
    for name, content in _members(files, complaints):
        if len(images) >= MOST_IMAGES:
            complaints.append(f"'{name}' and what follows: only {MOST_IMAGES} at a time")
            break
        try:
            images[_free(name, images)] = read_bytes(content, name, model)
        except DataError as error:
            complaints.append(str(error))
    for file in files:  # those not come to, too
        Path(file).unlink(missing_ok=True)
    return images, complaints


def _members(files: Sequence[str | Path], complaints: list[str]) -> Iterator[tuple[str, bytes]]:
    """Give uploaded images and those inside of uploaded zips, one at a time."""
    for file in map(Path, files):
        try:
            content = _take(file)
            if file.suffix.lower() == ".zip":
                yield from _unzip(content, file.name, complaints)
            else:
                yield file.name, content
        except DataError as error:
            complaints.append(str(error))


def _take(file: Path) -> bytes:
    """Read an upload, at most one byte more than allowed, and delete it."""
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except OSError:
        raise DataError(f"'{file.name}' did not arrive; upload it again") from None
    finally:
        file.unlink(missing_ok=True)


def _unzip(content: bytes, name: str, complaints: list[str]) -> Iterator[tuple[str, bytes]]:
    """Unpack the images of a zip by bare names, each only when it is asked for.

    Neither one member nor all together may unpack to more than is allowed.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(f"'{name}' is larger than {LARGEST_FILE // 2**20} MB; split it")
    try:
        archive = zipfile.ZipFile(BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise DataError(f"'{name}' is not a readable zip: {error}") from None
    wanted = [info for info in archive.infolist() if _is_image(info.filename)]
    if not wanted:
        raise DataError(f"'{name}' contains no image files")
    left = _LARGEST_ZIP
    for info in wanted:
        try:
            with archive.open(info) as stream:
                unpacked = stream.read(LARGEST_FILE + 1)
        except _DAMAGE as error:
            complaints.append(f"'{info.filename}' in '{name}' cannot be unpacked: {error}")
            continue
        left -= len(unpacked)
        if left < 0:
            raise DataError(f"'{name}' unpacks to more than {_LARGEST_ZIP // 2**20} MB; split it")
        if len(unpacked) > LARGEST_FILE:
            complaints.append(f"'{info.filename}' unpacks to more than allowed: left out")
            continue
        yield PurePosixPath(info.filename).name, unpacked


def _is_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")


def _free(name: str, taken: dict[str, Tensor]) -> str:
    """Change a name that is taken already."""
    number, path = 1, PurePosixPath(name)
    while name in taken:
        number += 1
        name = f"{path.stem}-{number}{path.suffix}"
    return name
