"""Folders and zip archives of image files; archives are never unpacked to disk."""

import contextlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from transop.data.dataset import ImageDataset
from transop.data.picture import EXTENSIONS
from transop.data.pictures import Entry, dataset_from_pictures
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import is_process_folder, open_regular, reason_of

_LARGEST_FILE = 2**29
# An archive may unpack to 256 MB whatever its size; beyond that, to 100 times its size. Image
# files are compressed already, so an honest archive of them stays far below.
_HARMLESS_BYTES = 2**28
_MOST_EXPANSION = 100


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
        if not info.is_dir():
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
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        relative = PurePosixPath(here.relative_to(root).as_posix())
        for name in names:
            if _is_image(PurePosixPath(name)):
                yield file_entry(real / name, relative / name)


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
        file = open_regular(path)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {reason_of(error)}") from None
    with contextlib.ExitStack() as on_error:
        on_error.enter_context(file)
        try:
            archive = zipfile.ZipFile(file)
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
