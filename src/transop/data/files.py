"""Published files: recognise them by checksum, and let them enter the cache whole or not at all."""

import contextlib
import gzip
import hashlib
import logging
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

_log = logging.getLogger(__name__)
_BLOCK = 2**20
_ABANDONED_SECONDS = 24 * 3600


class FileProblem(Exception):
    """A published file is missing, unreadable or not what it should be."""


@dataclass(frozen=True)
class PublishedFile:
    """A file that everybody has in the same form.

    Attributes:
        name: its name; ``name + ".gz"`` is accepted in its place.
        checksum: ``"sha256:..."`` or ``"md5:..."`` of the content (after undoing ``.gz``), so
            that mirrors which compress differently all pass.
        size: content length in bytes, which also bounds what is ever unpacked.
    """

    name: str
    checksum: str
    size: int

    def locate(self, folder: Path) -> Path:
        """Find the file in a folder, compressed or not.

        Raises:
            FileProblem: it is not there.
        """
        for candidate in (folder / self.name, folder / f"{self.name}.gz"):
            if candidate.is_file():
                return candidate
        raise FileProblem(f"{self.name} is missing")

    def verify(self, path: Path) -> None:
        """Check the content of a located file.

        Raises:
            FileProblem: it is damaged, cut short, or another file.
        """
        try:
            with self.open(path) as stream:
                length, found = _digest(stream, self.checksum.split(":")[0], self.size)
        except (OSError, EOFError, zlib.error) as error:
            raise FileProblem(f"{path.name} is unreadable ({error})") from None
        if length != self.size:
            more = "more" if length > self.size else length
            raise FileProblem(f"{path.name} holds {more} of {self.size} bytes")
        if found != self.checksum:
            raise FileProblem(f"{path.name} is damaged or another file (wrong checksum)")

    def open(self, path: Path) -> IO[bytes]:
        """Open the content of a located file, undoing ``.gz`` if it was added."""
        return open_bytes(path, decompress=path.name == f"{self.name}.gz")

    def read(self, path: Path) -> bytes:
        """Read the whole content of a verified file."""
        with self.open(path) as stream:
            return stream.read(self.size)


def open_bytes(path: Path, *, decompress: bool = False) -> IO[bytes]:
    """Open a file for reading bytes, undoing gzip if asked to."""
    return cast(IO[bytes], gzip.GzipFile(path)) if decompress else path.open("rb")


def _digest(stream: IO[bytes], algorithm: str, limit: int) -> tuple[int, str]:
    """Hash a stream, giving up once it is longer than it may be (a gzip bomb, say)."""
    digest, length = hashlib.new(algorithm), 0
    while length <= limit and (block := stream.read(_BLOCK)):
        digest.update(block)
        length += len(block)
    return length, f"{algorithm}:{digest.hexdigest()}"


def set_aside(path: Path) -> Path:
    """Rename a damaged file so that it is never used again but not lost either."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    _log.warning("%s is damaged: renamed to %s", path.name, aside)
    return aside


def keep(file: PublishedFile, path: Path, folder: Path) -> Path:
    """Move a verified file, decompressed, into a folder in one step: whole, or not at all."""
    content = path.with_name(file.name)
    if path != content:
        with file.open(path) as source, content.open("wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)
    with content.open("rb") as stream:
        os.fsync(stream.fileno())
    return content.replace(folder / file.name)


@contextlib.contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Lend an empty folder beside the final place; it is gone afterwards, whatever happens.

    After a power cut it is not; so folders left behind more than a day ago go first.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(".unfinished-*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
