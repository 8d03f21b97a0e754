"""The one place that opens files a user names, and the one that writes folders in one step.

Only regular files are opened: a link to a device never ends, a named pipe may wait without end,
and the files of process folders (``/proc``, ``/sys``) are no data. Everything else raises an
`OSError` that says what the file is, which callers report like any other unreadable file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from transop.errors import UserError, shorten

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_PROCESS_FOLDERS = (Path("/proc"), Path("/sys"))
_ABANDONED_SECONDS = 24 * 3600
DEEPEST = 200  # folders in folders; Python cannot make or remove a thousand


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file for reading; whatever else the path leads to is an `OSError`."""
    # Without O_NONBLOCK, opening a named pipe waits until somebody writes to it.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _refuse_odd(path, os.fstat(number))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def require_regular(path: str | Path) -> int:
    """Check a file that a library will open itself, and give its size in bytes."""
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size


def read_regular(path: str | Path, *, most_bytes: int | None = None) -> bytes:
    """Read a regular file; one that is longer than ``most_bytes`` is an `OSError`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most_bytes is not None and size > most_bytes:
            raise OSError(errno.EFBIG, f"{size:,} bytes are more than {most_bytes:,}", str(path))
        return file.read(size)


def real_path(path: Path) -> Path:
    """Make a path absolute, links followed and ``~`` replaced by the home folder.

    Raises:
        UserError: links lead in a circle, or there is no such home folder.
    """
    try:
        real = path.expanduser().resolve()
        if real.is_symlink():  # since Python 3.13 a circle is no error
            real.stat()
        return real
    except (OSError, RuntimeError) as error:
        reason = str(error).replace(str(path), "").strip(" :'") or type(error).__name__
        raise UserError(f"'{shorten(str(path))}' leads nowhere ({reason}); name another") from None


def make_folder(path: Path) -> None:
    """Create a folder with those it lies in, unless it is there already.

    Raises:
        UserError: it would lie deeper than folders can be made and removed.
        OSError: the system refuses.
    """
    if len(path.parts) > DEEPEST:
        raise UserError(
            f"'{shorten(str(path))}' is {len(path.parts)} folders deep; choose a place at most "
            f"{DEEPEST} deep"
        )
    path.mkdir(parents=True, exist_ok=True)


def is_process_folder(path: Path) -> bool:
    """Say whether a path leads into the folders that describe running processes."""
    real = path.resolve()
    return any(real == folder or folder in real.parents for folder in _PROCESS_FOLDERS)


def refuse_odd_target(path: Path) -> None:
    """Check a path before a file is renamed to it, which would replace even a device."""
    with contextlib.suppress(FileNotFoundError):
        _refuse_odd(path, path.stat())


def _refuse_odd(path: str | Path, status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = f"it is {_KINDS.get(kind, 'something else')}, not a regular file"
        raise OSError(errno.EINVAL, what, str(path))
    if is_process_folder(Path(path)):
        raise OSError(errno.EINVAL, "it lies in a folder of running processes", str(path))


def reason_of(error: OSError) -> str:
    """Say why a file could not be read, without repeating its name."""
    return error.strerror or str(error) or type(error).__name__


def digest_of_file(path: str | Path) -> str:
    """Give the hexadecimal SHA-256 digest of a regular file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Give an empty folder beside the final place; it is removed afterwards, whatever happens.

    A power cut leaves it behind; so folders that are more than a day old are removed first.
    """
    make_folder(parent)
    for left in parent.glob(".unfinished-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=".unfinished-", dir=parent, ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)
