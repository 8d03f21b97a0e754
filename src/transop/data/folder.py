"""Folders and zip archives of image files."""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from transop.data.archive import open_zip
from transop.data.dataset import ImageDataset
from transop.data.picture import EXTENSIONS
from transop.data.pictures import Entry, dataset_from_pictures
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import is_process_folder, open_regular

_LARGEST_FILE = 2**29


def load_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image below a folder; subfolders are classes.

    Args:
        root: the folder.
        request: wanted shape, seed and cache.

    Returns:
        The images, split 80/10/10 unless the folder has train and test subfolders.
    """
    request.refuse_options(f"folder {root.name}")
    entries = list(_files_below(root))
    if not entries:
        known = " ".join(sorted(EXTENSIONS))
        raise DataError(f"folder {str(root)!r} contains no image files ({known}); check the path")
    return dataset_from_pictures(entries, root.resolve().name, f"folder {root}", request)


def load_zip(path: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image in a zip archive; folders inside it are classes.

    Args:
        path: the archive.
        request: wanted shape, seed and cache.

    Returns:
        The images, split 80/10/10 unless the archive has train and test folders.
    """
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
            yield Entry(PurePosixPath(info.filename), stamp, _opener(archive, info))


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


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def open_entry() -> IO[bytes]:
        if info.file_size > _LARGEST_FILE:
            raise OSError(f"{info.file_size:,} bytes are too many for one image")
        try:
            return io.BytesIO(archive.read(info))
        except Exception as error:  # damaged entries raise anything from EOFError to UnicodeError
            raise OSError(str(error) or type(error).__name__) from None

    return open_entry
