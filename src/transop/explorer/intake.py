"""What people bring to the page, files and drawings, turned into images or refused in a sentence.

Every file goes through the library's own picture reader, never through Gradio's, so that
decompression bombs are refused before a pixel is unpacked.
"""

from __future__ import annotations

import base64
import binascii
import zipfile
from collections.abc import Sequence
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
_LARGEST_DRAWING = 2**20
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
    for file in map(Path, files):
        content = _take(file)
        members = {file.name: content}
        try:
            if file.suffix.lower() == ".zip":
                members = _unzip(content, file.name, complaints)
        except DataError as error:
            complaints.append(str(error))
            continue
        for name, member in members.items():
            if len(images) >= MOST_IMAGES:
                complaints.append(f"'{name}' and what follows: only {MOST_IMAGES} at a time")
                return images, complaints
            try:
                images[_free(name, images)] = read_bytes(member, name, model)
            except DataError as error:
                complaints.append(str(error))
    return images, complaints


def _take(file: Path) -> bytes:
    """Read an upload, at most one byte more than allowed, and delete it."""
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except OSError:
        raise DataError(f"'{file.name}' did not arrive; upload it again") from None
    finally:
        file.unlink(missing_ok=True)


def _unzip(content: bytes, name: str, complaints: list[str]) -> dict[str, bytes]:
    """Unpack the images of a zip into memory, by bare names; no member may exceed the limit."""
    if len(content) > LARGEST_FILE:
        raise DataError(f"'{name}' is larger than {LARGEST_FILE // 2**20} MB; split it")
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            wanted = [i for i in archive.infolist() if _is_image(i.filename)]
            for info in wanted[: MOST_IMAGES + 1]:
                with archive.open(info) as stream:
                    unpacked = stream.read(LARGEST_FILE + 1)
                if len(unpacked) > LARGEST_FILE:
                    complaints.append(f"'{info.filename}' unpacks to more than allowed: left out")
                    continue
                members[_free(PurePosixPath(info.filename).name, members)] = unpacked
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
        raise DataError(f"'{name}' is not a readable zip: {error}") from None
    if not members:
        raise DataError(f"'{name}' contains no image files")
    return members


def _is_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")


def _free(name: str, taken: dict[str, Tensor] | dict[str, bytes]) -> str:
    """Change a name that is taken already."""
    number, path = 1, PurePosixPath(name)
    while name in taken:
        number += 1
        name = f"{path.stem}-{number}{path.suffix}"
    return name
