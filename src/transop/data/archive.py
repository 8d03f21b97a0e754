"""Zip archives of image files, read in memory: nothing is ever unpacked to disk."""

import io
import stat
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from transop.data.dataset import ImageDataset
from transop.data.picture import EXTENSIONS
from transop.data.pictures import Entry, dataset_from_pictures
from transop.data.request import DatasetRequest
from transop.errors import DataError

# An archive may unpack to 256 MB whatever its size; beyond that, to 100 times its size. Image
# files are compressed already, so an honest archive of them stays far below.
_HARMLESS_BYTES = 2**28
_MOST_EXPANSION = 100
_LARGEST_FILE = 2**29


def load_zip(path: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image in a zip archive; folders inside it are classes.

    Args:
        path: the archive.
        request: wanted size and channels, seed and cache.

    Returns:
        The images, split 80/10/10 unless the archive has train and test folders.
    """
    request.refuse_options(f"archive {path.name}")
    with open_zip(path) as archive:
        infos = [info for info in archive.infolist() if _is_image(info)]
        if not infos:
            raise DataError(f"archive {str(path)!r} contains no image files; check its content")
        entries = [
            Entry(
                PurePosixPath(info.filename),
                f"{path.resolve()} {info.CRC:x}",
                _opener(archive, info),
            )
            for info in infos
        ]
        return dataset_from_pictures(entries, path.stem, f"archive {path}", request)


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive after refusing damage, bombs, and entries that point outside of it.

    Args:
        path: a ``.zip`` or ``.npz`` file.

    Returns:
        The open archive.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{str(path)!r} is no zip archive or a damaged one ({error})") from None
    try:
        _refuse_dangers(path, archive.infolist())
    except DataError:
        archive.close()
        raise
    return archive


def _refuse_dangers(path: Path, infos: Sequence[zipfile.ZipInfo]) -> None:
    for info in infos:
        name = info.filename
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
            raise DataError(
                f"archive {str(path)!r} has an entry {name!r} that points outside of it (path "
                "traversal); it is refused: make the archive anew"
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


def _is_image(info: zipfile.ZipInfo) -> bool:
    if not info.filename:  # a damaged directory: zipfile itself stumbles over it
        return False
    path = PurePosixPath(info.filename)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not info.is_dir() and not hidden and path.suffix.lower() in EXTENSIONS


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def open_entry() -> IO[bytes]:
        if info.file_size > _LARGEST_FILE:
            raise OSError(f"{info.file_size:,} bytes are too many for one image")
        try:
            return io.BytesIO(archive.read(info))
        except Exception as error:  # damaged entries raise anything from EOFError to UnicodeError
            raise OSError(str(error) or type(error).__name__) from None

    return open_entry
