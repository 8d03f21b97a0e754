"""Zip archives, read in memory: nothing is ever unpacked to disk."""

import stat
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from transop.errors import DataError
from transop.files import open_regular, reason_of

# An archive may unpack to 256 MB whatever its size; beyond that, to 100 times its size. Image
# files are compressed already, so an honest archive of them stays far below.
_HARMLESS_BYTES = 2**28
_MOST_EXPANSION = 100


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive after refusing damage, bombs, and entries that point outside of it.

    Args:
        path: a ``.zip`` or ``.npz`` file.

    Returns:
        The open archive.
    """
    try:
        file = open_regular(path)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {reason_of(error)}") from None
    try:
        archive = zipfile.ZipFile(file)
        _refuse_dangers(path, archive.infolist())
    except DataError:
        file.close()
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        file.close()
        raise DataError(f"{str(path)!r} is no zip archive or a damaged one ({error})") from None
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
