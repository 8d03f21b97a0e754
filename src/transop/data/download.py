"""Download published files from public mirrors, giving up quickly where there is no internet."""

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pooch

from transop.data.request import DatasetRequest
from transop.data.sources import SourceUnavailable, Supplier
from transop.progress import Progress

RESOLVE_SECONDS = 3.0
STALL_SECONDS = 15.0
_BLOCK = 2**18


def mirror(base: str, names: Sequence[str]) -> Supplier:
    """Offer the files below one address as a source.

    Args:
        base: address of the folder, ending in a slash.
        names: file names below it.

    Returns:
        A supplier that downloads all of them, or says why it cannot.
    """

    def fetch(folder: Path, request: DatasetRequest) -> None:
        _require_reachable(base)
        for name in names:
            _retrieve(base + name, folder, request.progress)

    return Supplier(f"download from {base}", fetch)


def _retrieve(url: str, folder: Path, progress: Progress) -> None:
    """Let pooch fetch one file; the caller checks its content against the published checksum."""
    pooch.get_logger().setLevel(logging.WARNING)

    def stream_to_file(url: str, output_file: str, _pooch: Any) -> None:
        with (
            urllib.request.urlopen(url, timeout=STALL_SECONDS) as response,
            Path(output_file).open("wb") as target,
        ):
            length = int(response.headers.get("Content-Length") or 0)
            description = f"downloading {url.rsplit('/', 1)[-1]}"
            n_blocks = -(-length // _BLOCK) or None
            for block in progress(_blocks(response), description, n_blocks):
                target.write(block)

    try:
        pooch.retrieve(
            url,
            known_hash=None,
            fname=url.rsplit("/", 1)[-1],
            path=folder,
            downloader=stream_to_file,
        )
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SourceUnavailable(f"{url.rsplit('/', 1)[-1]}: {reason}") from None


def _blocks(response: IO[bytes]) -> Iterator[bytes]:
    while block := response.read(_BLOCK):
        yield block


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
