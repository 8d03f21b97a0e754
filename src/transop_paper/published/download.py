"""Download published files."""

import socket
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from transop.progress import Progress

RESOLVE_SECONDS = 3.0
STALL_SECONDS = 15.0
_BLOCK = 2**18


class SourceUnavailable(Exception):
    """A source cannot deliver, or not the right file; the message says why."""


def mirror(base: str, names: Sequence[str], folder: Path, progress: Progress) -> None:
    """Download files below one address, which ends in a slash, into a folder."""
    for name in names:
        download(base + name, folder / name, progress)


def download(url: str, target: Path, progress: Progress) -> None:
    """Download a file; the caller checks its content."""
    _require_reachable(url)
    try:
        with (
            urllib.request.urlopen(url, timeout=STALL_SECONDS) as response,
            target.open("wb") as file,
        ):
            n_blocks = -(-int(response.headers.get("Content-Length") or 0) // _BLOCK) or None
            blocks = iter(lambda: response.read(_BLOCK), b"")
            for block in progress(blocks, f"downloading {target.name}", n_blocks):
                file.write(block)
    except (HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SourceUnavailable(f"{target.name}: {reason}") from None


def _require_reachable(url: str) -> None:
    """Fail within seconds where names do not resolve, instead of waiting for the system's retries.

    Behind a proxy the name need not resolve here, so the question is not asked.
    """
    parts = urlsplit(url)
    if parts.scheme in urllib.request.getproxies():
        return
    pool = ThreadPoolExecutor(max_workers=1)  # not a with block: its exit would wait for the thread
    try:
        pool.submit(socket.getaddrinfo, parts.hostname, None).result(timeout=RESOLVE_SECONDS)
    except TimeoutError:
        raise SourceUnavailable(f"no answer about {parts.hostname} (offline?)") from None
    except OSError:
        raise SourceUnavailable(f"cannot resolve {parts.hostname} (offline?)") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
