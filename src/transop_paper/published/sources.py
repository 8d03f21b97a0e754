"""Published files: recognised by their checksum, and asked for at each source in turn."""

import gzip
import hashlib
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, cast

from transop.data import DatasetRequest
from transop.errors import DataError
from transop.files import open_regular, real_path, require_regular, scratch_folder
from transop.progress import Progress
from transop_paper.published.download import SourceUnavailable, mirror

_log = logging.getLogger(__name__)
_BLOCK = 2**20

Place = Callable[[], Path | None]  # names a folder that may hold the files; it is only read
Supplier = Callable[[Path, Progress], None]  # fetches the files into an empty folder


@dataclass(frozen=True)
class PublishedFile:
    """A file that everybody has in the same form, or with ``.gz`` added to its name.

    Digest and size are those of the content after undoing ``.gz``, so that mirrors which compress
    differently all pass; the size also bounds what is ever unpacked.
    """

    name: str
    sha256: str
    size: int

    def locate(self, folder: Path) -> Path:
        """Find the file in a folder, compressed or not."""
        for candidate in (folder / self.name, folder / f"{self.name}.gz"):
            if candidate.exists():
                return candidate
        raise SourceUnavailable(f"{self.name} is missing")

    def verify(self, path: Path) -> None:
        """Refuse a located file that is damaged, cut short, or another file."""
        digest, length = hashlib.sha256(), 0
        try:
            with self.open(path) as stream:
                # Stops once the content is longer than it may be (a gzip bomb, say).
                while length <= self.size and (block := stream.read(_BLOCK)):
                    digest.update(block)
                    length += len(block)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceUnavailable(f"{path.name} is unreadable ({error})") from None
        if length != self.size:
            more = "more" if length > self.size else length
            raise SourceUnavailable(f"{path.name} holds {more} of {self.size} bytes")
        if digest.hexdigest() != self.sha256:
            raise SourceUnavailable(f"{path.name} is damaged or another file (wrong checksum)")

    def open(self, path: Path) -> IO[bytes]:
        """Open the content of a located file, undoing ``.gz`` if it was added."""
        if path.name != f"{self.name}.gz":
            return open_regular(path)
        require_regular(path)
        return cast(IO[bytes], gzip.GzipFile(path))

    def keep(self, path: Path, folder: Path) -> Path:
        """Move a verified file, decompressed, into a folder in one step: whole, or not at all."""
        content = path.with_name(self.name)
        if path != content:
            with self.open(path) as source, content.open("wb") as target:
                shutil.copyfileobj(source, target, _BLOCK)
        with content.open("rb") as stream:
            os.fsync(stream.fileno())
        return content.replace(folder / self.name)


@dataclass(frozen=True)
class Catalogue:
    """The files of a data set and everything that may supply them."""

    name: str  # the data set, and its folder in the cache
    files: Sequence[PublishedFile]
    mirrors: Sequence[str] = ()  # addresses below which the files are published
    ending: str = ""  # what mirrors add to the names of the files
    places: Mapping[str, Place] = field(default_factory=dict)  # installed packages
    packages: Mapping[str, Supplier] = field(default_factory=dict)  # through a package client
    remedy: str = ""  # the one command that would help, if not a download from the first mirror

    @property
    def names(self) -> list[str]:
        """The names of the files at the mirrors."""
        return [f"{file.name}{self.ending}" for file in self.files]

    def suppliers(self) -> dict[str, Supplier]:
        """List what fetches the files, by description, in order."""
        mirrors: dict[str, Supplier] = {
            f"download from {base}": partial(mirror, base, self.names) for base in self.mirrors
        }
        return {**mirrors, **self.packages}

    def command(self, folder: Path) -> str:
        """Give the command that gets the files, or brings them into a folder of the cache."""
        addresses = " ".join(f"{base}{name}" for base in self.mirrors[:1] for name in self.names)
        return self.remedy or (
            f"curl -fL --create-dirs --output-dir '{folder}' --remote-name-all {addresses}"
        )


@dataclass(frozen=True)
class Obtained:
    """Verified files by name, and where they came from."""

    paths: dict[str, Path]
    source: str
    tried: tuple[str, ...]


def obtain(catalogue: Catalogue, request: DatasetRequest) -> Obtained:
    """Get the verified files of a data set from the first source that has them.

    The order: the path the user gave (then nothing else), the cache, installed packages,
    downloads, package clients. Damaged files in the cache are renamed and fetched again. If no
    source has the files, the error lists every source and one remedy.
    """
    if request.path is not None:
        return _from_user(catalogue, request.path)
    files, cache = catalogue.files, request.cache_dir / catalogue.name
    suppliers = catalogue.suppliers()
    attempts: dict[str, Callable[[], dict[str, Path]]] = {
        f"cache {cache}": partial(_verified, files, cache, damaged_aside=True),
        **{name: partial(_verified, files, find()) for name, find in catalogue.places.items()},
        **{
            name: partial(_fetch, files, fetch, cache, request) for name, fetch in suppliers.items()
        },
    }
    tried: list[str] = []
    for description, attempt in attempts.items():
        _log.info("data set %r: trying %s", catalogue.name, description)
        try:
            paths = attempt()
        except (SourceUnavailable, OSError) as problem:
            tried.append(f"{description}: {problem}")
            continue
        outcome = "fetched" if description in suppliers else "found"
        return Obtained(paths, description, (*tried, f"{description}: {outcome}"))
    lines = [f"  {number}. {line}\n" for number, line in enumerate(tried, start=1)]
    raise DataError(
        f"{catalogue.name!r} could not be found or fetched. Tried, in order:\n"
        f"{''.join(lines)}To fix it, run: {catalogue.command(cache)}"
    )


def _from_user(catalogue: Catalogue, path: Path) -> Obtained:
    """Use the folder the user named, or say what is wrong with it."""
    folder = real_path(path)
    if folder.is_file():
        folder = folder.parent
    try:
        paths = _verified(catalogue.files, folder)
    except SourceUnavailable as problem:
        wanted = ", ".join(file.name for file in catalogue.files)
        raise DataError(
            f"path={str(path)!r} does not hold data set {catalogue.name!r}: {problem}; "
            f"it needs {wanted} (or .gz) as published, or leave path out to have them fetched"
        ) from None
    return Obtained(paths, f"path {folder}", (f"path {folder}: found",))


def _verified(
    files: Sequence[PublishedFile], folder: Path | None, *, damaged_aside: bool = False
) -> dict[str, Path]:
    """Verify every file of a folder, None if its package is not installed; rename damaged ones."""
    if folder is None:
        raise SourceUnavailable("not installed")
    paths: dict[str, Path] = {}
    problems = []
    for file in files:
        try:
            paths[file.name] = file.locate(folder)
            file.verify(paths[file.name])
        except SourceUnavailable as problem:
            damaged = paths.get(file.name)
            aside = f", renamed to {_set_aside(damaged)}" if damaged and damaged_aside else ""
            problems.append(f"{problem}{aside}")
    if len(problems) > 2:
        problems = [f"{problems[0]}; and {len(problems) - 1} more like this"]
    if problems:
        raise SourceUnavailable("; ".join(problems))
    return paths


def _set_aside(path: Path) -> str:
    """Rename a damaged file so that it is never used again but not lost either."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    _log.warning("%s is damaged: renamed to %s", path.name, aside)
    return aside.name


def _fetch(
    files: Sequence[PublishedFile], fetch: Supplier, cache: Path, request: DatasetRequest
) -> dict[str, Path]:
    """Fetch into a scratch folder, verify, and only then move into the cache."""
    if request.offline:
        raise SourceUnavailable("not asked (offline)")
    with scratch_folder(cache) as scratch:
        fetch(scratch, request.progress)
        fetched = _verified(files, scratch)
        return {file.name: file.keep(fetched[file.name], cache) for file in files}
