"""Files and drawings that people send to the page, turned into images or refused in a sentence.

Uploads are kept in memory for a few minutes at most, under a token that only the sender knows, and
go when they are read. They are never written to disk and cannot be fetched back. Every file goes
through the library's own picture reader, so that decompression bombs are refused before a pixel is
unpacked.
"""

import base64
import binascii
import lzma
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import PurePosixPath
from threading import Lock
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.data import EXTENSIONS, UnreadablePicture, read_picture
from transop.errors import DataError, UserError
from transop.model import ManifoldAutoencoder

LARGEST_FILE = 20 * 2**20  # bytes of one upload, and of one unpacked member of a zip
MOST_IMAGES = 200
_MOST_FILES = 1000  # at a time; even empty ones cost something
_LARGEST_ZIP = 10 * LARGEST_FILE  # bytes of all that a zip unpacks to
_LARGEST_DRAWING = 2**20
_LONGEST_NAME = 100
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

File = tuple[str, bytes]  # name and content


class Uploads:
    """Files that were sent and not yet read, of all sessions together.

    ``total`` bytes may wait at a time. The server drops a file that nobody has read after
    ``seconds``.
    """

    def __init__(self, *, total: int = 10 * LARGEST_FILE, seconds: float = 300) -> None:
        self.total = total
        self.seconds = seconds
        self._sizes: dict[str, int] = {}
        self._contents: dict[str, bytes] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._sizes)

    def reserve(self, size: int) -> str:
        """Make room for a file of so many bytes; give its token."""
        with self._lock:
            is_full = sum(self._sizes.values()) + size > self.total
            if is_full or len(self._sizes) >= _MOST_FILES:
                raise UserError("too many uploads are waiting; try again in a few minutes")
            token = secrets.token_urlsafe(16)
            self._sizes[token] = size
        return token

    def fill(self, token: str, content: bytes) -> None:
        """Keep a file under its token."""
        with self._lock:
            self._contents[token] = content
            self._sizes[token] = len(content)

    def drop(self, token: str) -> None:
        """Forget a file, if it is still there."""
        with self._lock:
            self._sizes.pop(token, None)
            self._contents.pop(token, None)

    def take(self, listed: Any) -> list[File]:
        """Give the files that an event of the page lists, and forget them.

        ``listed`` is a list of objects with ``name`` and ``token``.
        """
        if not isinstance(listed, list) or not listed:
            raise DataError("no file arrived; upload it again")
        found = []
        for item in listed[:_MOST_FILES]:
            token = item.get("token") if isinstance(item, dict) else None
            with self._lock:
                content = self._contents.pop(token, None) if isinstance(token, str) else None
                if content is not None:
                    self._sizes.pop(str(token), None)
            name = _bare_name(item.get("name") if isinstance(item, dict) else None)
            if content is None:
                raise DataError(f"'{name}' did not arrive; upload it again")
            found.append((name, content))
        return found


def _bare_name(name: Any) -> str:
    """Take the last part of a file's name, of a length that can be shown."""
    text = name if isinstance(name, str) else "upload"
    bare = PurePosixPath(text.replace("\\", "/")).name or "upload"
    return bare[-_LONGEST_NAME:]


def read_bytes(content: bytes, name: str, model: ManifoldAutoencoder) -> Float[Tensor, "c h w"]:
    """Turn the bytes of an image file into an image as the model wants it."""
    if len(content) > LARGEST_FILE:
        raise DataError(f"'{name}' is larger than {LARGEST_FILE // 2**20} MB; shrink it first")
    channels, size, _ = model.image_shape
    try:
        pixels = read_picture(BytesIO(content), size, channels)
    except UnreadablePicture as error:
        raise DataError(f"'{name}' is not a readable image: {error}") from None
    return torch.from_numpy(pixels.copy()).float() / 255


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
    files: Sequence[File], model: ManifoldAutoencoder
) -> tuple[dict[str, Float[Tensor, "c h w"]], list[str]]:
    """Read uploaded images and zips of images.

    Gives the images by name, and a sentence for every file left out.
    """
    images: dict[str, Tensor] = {}
    complaints: list[str] = []
    for name, content in _members(files, complaints):
        if len(images) >= MOST_IMAGES:
            complaints.append(f"'{name}' and what follows: only {MOST_IMAGES} at a time")
            break
        try:
            image, number, path = read_bytes(content, name, model), 1, PurePosixPath(name)
            while name in images:  # two files of one name are told apart by a number
                number += 1
                name = f"{path.stem}-{number}{path.suffix}"
            images[name] = image
        except DataError as error:
            complaints.append(str(error))
    return images, complaints


def _members(files: Sequence[File], complaints: list[str]) -> Iterator[File]:
    """Give uploaded images and those inside of uploaded zips, one at a time."""
    for name, content in files:
        try:
            if name.lower().endswith(".zip"):
                yield from _unzip(content, name, complaints)
            else:
                yield name, content
        except DataError as error:
            complaints.append(str(error))


def _unzip(content: bytes, name: str, complaints: list[str]) -> Iterator[File]:
    """Unpack the images of a zip by bare names, each only when it is asked for.

    Neither one member nor all together may unpack to more than is allowed.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(f"'{name}' is larger than {LARGEST_FILE // 2**20} MB; split it")
    try:
        archive = zipfile.ZipFile(BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise DataError(f"'{name}' is not a readable zip: {error}") from None
    named = [(info, PurePosixPath(info.filename)) for info in archive.infolist()]
    wanted = [
        (info, path.name)
        for info, path in named
        if path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")
    ]
    if not wanted:
        raise DataError(f"'{name}' contains no image files")
    left = _LARGEST_ZIP
    for info, bare in wanted:
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
        yield bare, unpacked
