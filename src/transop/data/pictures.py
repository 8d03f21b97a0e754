"""Folders and zip archives of image files: decoded into one array, labelled by their paths.

Archives are never unpacked to disk. Small collections are kept in memory; larger ones are written
once to a memory-mapped file in the cache. Images are laid out split by split, so that a split of
a memory map is a view, not a copy.
"""

import contextlib
import hashlib
import io
import logging
import os
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from jaxtyping import Int64, UInt8

from transop.artifacts import RunFolder, map_rows, write_rows
from transop.data.dataset import SPLIT_NAMES, SPLIT_WORDS, DatasetMeta, ImageDataset, random_splits
from transop.data.picture import EXTENSIONS, UnreadablePicture, read_header, read_picture
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import is_process_folder, open_regular, reason_of, require_regular

_log = logging.getLogger(__name__)

IN_MEMORY_IMAGES, IN_MEMORY_BYTES = 2_000, 2**26  # more than either: a memory map
_FORMAT = 2  # raise it when the decoding changes, so that old files are not used
_LISTED = 10
_LOOKED_AT = 2_000
_BATCH = 512
_LARGEST_FILE = 2**29
# An archive may unpack to 256 MB whatever its size; beyond that, to 100 times its size. Image
# files are compressed already, so an honest archive of them stays far below.
_HARMLESS_BYTES = 2**28
_MOST_EXPANSION = 100


@dataclass(frozen=True)
class Entry:
    """One image file of a collection."""

    path: PurePosixPath  # relative to the collection; its folders are split and class names
    stamp: str  # changes when the file does (size and time), for the cache key
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Decoded:
    """The readable images of a collection, in its order."""

    images: UInt8[np.ndarray, "n c s s"]
    kept: Int64[np.ndarray, " n"]  # the positions of the readable entries
    notes: tuple[str, ...]  # what was left out, in words


def dataset_from_pictures(
    entries: Sequence[Entry], name: str, source: str, request: DatasetRequest
) -> ImageDataset:
    """Decode a collection of image files into a data set.

    Subfolders are classes; first-level subfolders called train, validation (or val) and test are
    splits. Unreadable files are listed in the log and left out.
    """
    entries = sorted(entries, key=lambda entry: str(entry.path))
    split_of, class_of = _folders(entries)
    class_names, labels = _labels(class_of, name)
    if split_of is None:
        splits = random_splits(len(entries), labels, request.seed)
    else:
        splits = {split: np.flatnonzero(split_of == split) for split in SPLIT_NAMES}
    order = np.concatenate(list(splits.values()))
    decoded = decode_pictures([entries[row] for row in order], name, request)
    rows = order[decoded.kept]
    places = {split: np.flatnonzero(np.isin(rows, chosen)) for split, chosen in splits.items()}
    return ImageDataset(
        images=decoded.images,
        labels=None if labels is None else labels[rows],
        splits={split: found for split, found in places.items() if len(found)},
        meta=DatasetMeta(name, source, class_names, notes=decoded.notes),
        files=np.array([str(entries[row].path) for row in rows], dtype=object),
    )


def decode_pictures(entries: Sequence[Entry], name: str, request: DatasetRequest) -> Decoded:
    """Decode image files in order, in memory or into a memory map, leaving out unreadable ones."""
    size, channels = _shape(entries, name, request)
    problems: dict[int, str] = {}
    blocks = _decode_blocks(entries, name, size, channels, request, problems)
    n_bytes = len(entries) * channels * size**2
    if len(entries) <= IN_MEMORY_IMAGES and n_bytes <= IN_MEMORY_BYTES:
        images = np.concatenate(list(blocks))
    else:
        folder = request.cache_dir / "pictures" / _key(entries, size, channels, request)
        try:
            found = map_rows(folder) or write_rows(folder, blocks, lambda: {"problems": problems})
        except OSError as error:
            raise DataError(
                f"the image cache {folder.parent} cannot be written ({reason_of(error)}); set "
                "TRANSOP_CACHE or cache_dir to a folder with room"
            ) from None
        images = found[0]
        problems = {int(row): str(reason) for row, reason in found[1]["problems"].items()}
    kept = np.setdiff1d(np.arange(len(entries)), np.array(list(problems), dtype=np.int64))
    return Decoded(images, kept, _report(problems, len(entries), name))


def _decode_blocks(
    entries: Sequence[Entry],
    name: str,
    size: int,
    channels: int,
    request: DatasetRequest,
    problems: dict[int, str],
) -> Iterator[UInt8[np.ndarray, "b c s s"]]:
    """Yield the readable images a block at a time; note the reasons for all others."""

    def decode(entry: Entry) -> np.ndarray | str:
        try:
            with entry.open() as stream:
                return read_picture(stream, size, channels, fit=request.fit, crop=request.crop)
        except UnreadablePicture as problem:
            return f"{entry.path}: {problem}"
        except OSError as error:
            return f"{entry.path}: {reason_of(error)}"

    starts = range(0, len(entries), _BATCH)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for start in request.progress(starts, f"reading images of {name}", len(starts)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's remarks on odd but readable files
                batch = list(pool.map(decode, entries[start : start + _BATCH]))
            problems |= {start + i: item for i, item in enumerate(batch) if isinstance(item, str)}
            pixels = [item for item in batch if not isinstance(item, str)]
            if pixels:
                yield np.stack(pixels)
    if len(problems) == len(entries):
        raise _nothing_readable(name, len(entries), f" ({next(iter(problems.values()))})")


def _nothing_readable(name: str, n_files: int, why: str = "") -> DataError:
    return DataError(f"{name!r}: none of its {n_files} files is a readable image{why}")


def _key(entries: Sequence[Entry], size: int, channels: int, request: DatasetRequest) -> str:
    """Name a collection by what decides its bytes: files, order and shape."""
    key = f"{_FORMAT} {size} {channels} {request.fit} {request.crop}"
    digest = hashlib.sha256(key.encode())
    for entry in entries:
        digest.update(f"\n{entry.path}\t{entry.stamp}".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _labels(
    class_of: Sequence[str | None], name: str
) -> tuple[tuple[str, ...] | None, Int64[np.ndarray, " n"] | None]:
    """Number the classes; a collection with images outside of all classes is unlabelled."""
    class_names = tuple(sorted({label for label in class_of if label is not None}))
    if not class_names:
        return None, None
    if None in class_of:
        _log.warning(
            "%r has images both in its root and in subfolders: taking it as unlabelled", name
        )
        return None, None
    return class_names, np.searchsorted(class_names, [str(label) for label in class_of])


def _folders(entries: Sequence[Entry]) -> tuple[np.ndarray | None, list[str | None]]:
    """Read split and class of each entry out of its folders; None without splits."""
    parts = [entry.path.parts for entry in entries]
    while len({path[0] for path in parts}) == 1 and all(len(path) > 2 for path in parts):
        parts = [path[1:] for path in parts]  # one folder around everything says nothing
    words = [path[0].lower() for path in parts]
    splits = None
    if all(len(path) > 1 for path in parts) and len({*words}) > 1 and {*words} <= {*SPLIT_WORDS}:
        splits = np.array([SPLIT_WORDS[word] for word in words])
        parts = [path[1:] for path in parts]
        if "train" not in splits:
            splits = None
    return splits, [path[0] if len(path) > 1 else None for path in parts]


def _shape(entries: Sequence[Entry], name: str, request: DatasetRequest) -> tuple[int, int]:
    """Choose image size and channels: as asked, else from the headers of evenly spaced files."""
    if request.image_size is not None and request.channels is not None:
        return request.image_size, request.channels
    headers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in entries[:: -(-len(entries) // _LOOKED_AT)]:
            # Decoding will list what cannot be read.
            with contextlib.suppress(UnreadablePicture, OSError), entry.open() as stream:
                headers.append(read_header(stream))
    if not headers:
        raise _nothing_readable(name, len(entries))
    sides = {header.shorter_side for header in headers}
    common = sides.pop() if len(sides) == 1 and all(h.is_square for h in headers) else None
    if common is None or not 16 <= common <= 128:
        median = int(np.median([header.shorter_side for header in headers]))
        common = max(16, min(64, median))
    size = request.image_size or common
    channels = request.channels or (1 if all(header.is_grey for header in headers) else 3)
    _log.info("%r: images become %d x %d with %d channel(s)", name, size, size, channels)
    return size, channels


def _report(problems: dict[int, str], n: int, name: str) -> tuple[str, ...]:
    """Log what could not be read: every name up to a limit, and always the count."""
    if not problems:
        return ()
    for problem in list(problems.values())[:_LISTED]:
        _log.warning("left out %s", problem)
    note = f"{len(problems)} of {n} files are unreadable and left out"
    _log.warning("data set %r: %s", name, note)
    return (f"{note}: " + "; ".join(list(problems.values())[:_LISTED]),)


def load_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image below a folder; subfolders are classes, or splits (train, test)."""
    request.refuse_options(f"folder {root.name}")
    entries = list(_files_below(root))
    if not entries:
        known = " ".join(sorted(EXTENSIONS))
        raise DataError(f"folder {str(root)!r} contains no image files ({known}); check the path")
    return dataset_from_pictures(entries, root.resolve().name, f"folder {root}", request)


def load_zip(path: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image in a zip archive; folders inside it are classes or splits."""
    request.refuse_options(f"archive {path.name}")
    with open_zip(path) as archive:
        entries = [entry for entry in zip_entries(path, archive) if _is_image(entry.path)]
        if not entries:
            raise DataError(f"archive {str(path)!r} contains no image files; check its content")
        return dataset_from_pictures(entries, path.stem, f"archive {path}", request)


def file_entry(path: Path, relative: PurePosixPath) -> Entry:
    """Describe an image file on disk."""
    try:
        status = path.stat()
        # The full path is in the stamp: two folders with the same names differ.
        stamp = f"{path} {status.st_size} {status.st_mtime_ns}"
    except OSError:
        stamp = str(path)  # a dead link: decoding will list it
    return Entry(relative, stamp, partial(open_regular, path))


def zip_entries(path: Path, archive: zipfile.ZipFile) -> Iterator[Entry]:
    """Describe the files in an open archive."""
    origin = path.resolve()
    for info in archive.infolist():
        if info.filename and not info.filename.endswith("/"):  # a damaged one may have no name
            stamp = f"{origin} {info.CRC:x} {info.file_size}"
            opener = partial(_open_member, archive, info)
            yield Entry(PurePosixPath(info.filename), stamp, opener)


def _files_below(root: Path) -> Iterator[Entry]:
    """Walk the folder, following links but entering each real folder once."""
    seen = set()
    for folder, subfolders, names in os.walk(root, followlinks=True):
        here = Path(folder)
        real = here.resolve()
        if real in seen or is_process_folder(real):  # a link back up would never end
            subfolders.clear()
            continue
        seen.add(real)
        subfolders[:] = [name for name in subfolders if not _is_left_out(here / name)]
        relative = PurePosixPath(here.relative_to(root).as_posix())
        for name in names:
            if _is_image(PurePosixPath(name)):
                yield file_entry(real / name, relative / name)


def _is_left_out(folder: Path) -> bool:
    """Leave out hidden folders, and runs: their figures are no images to learn from."""
    run = RunFolder(folder)
    is_run = run.config_file.is_file() and run.environment_file.is_file()
    return folder.name.startswith(".") or is_run


def _is_image(path: PurePosixPath) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in EXTENSIONS


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.file_size > _LARGEST_FILE:
        raise OSError(f"{info.file_size:,} bytes are too many for one image")
    try:
        return io.BytesIO(archive.read(info))
    except Exception as error:  # damaged entries raise anything from EOFError to UnicodeError
        raise OSError(str(error) or type(error).__name__) from None


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a ``.zip`` or ``.npz`` file, refusing damage, bombs, and entries that point outside."""
    try:
        require_regular(path)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {reason_of(error)}") from None
    with contextlib.ExitStack() as on_error:
        try:
            archive = on_error.enter_context(zipfile.ZipFile(path))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{str(path)!r} is no zip archive or a damaged one ({error})") from None
        _refuse_dangers(path, archive.infolist())
        on_error.pop_all()  # the archive is sound: its user closes it
    return archive


def _refuse_dangers(path: Path, infos: Sequence[zipfile.ZipInfo]) -> None:
    for info in infos:
        name = info.filename
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
            raise DataError(
                f"archive {str(path)!r} has an entry {name!r} that points outside of it (path "
                "traversal); it is refused: make the archive again"
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise DataError(f"archive {str(path)!r} has a symbolic link {name!r}; it is refused")
        if info.flag_bits & 0x1:
            raise DataError(f"archive {str(path)!r} is encrypted ({name!r}); decrypt it first")
    unpacked, packed = sum(info.file_size for info in infos), path.stat().st_size
    if unpacked > max(_HARMLESS_BYTES, _MOST_EXPANSION * packed):
        raise DataError(
            f"archive {str(path)!r} would unpack from {packed:,} to {unpacked:,} bytes (a zip "
            "bomb); it is refused: if it is honest, unpack it and pass the folder"
        )
