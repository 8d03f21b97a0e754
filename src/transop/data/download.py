"""Download published files, giving up quickly where there is no internet."""

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from transop.data.request import DatasetRequest
from transop.data.sources import SourceUnavailable, Supplier
from transop.errors import UserError
from transop.files import digest_of_file, scratch_folder
from transop.progress import Progress, silent

RESOLVE_SECONDS = 3.0
STALL_SECONDS = 15.0
RETRY_SECONDS = 1.0
_ATTEMPTS = 2
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
        for name in names:
            download(base + name, folder / name, request.progress)

    return Supplier(f"download from {base}", fetch)


def fetch_once(url: str, folder: Path, sha256: str) -> Path:
    """Give a published file from a folder of the cache, downloading and checking it if need be.

    Args:
        url: where it is published.
        folder: where it is kept.
        sha256: the digest of its content.

    Raises:
        UserError: it cannot be downloaded, or something else was delivered.
    """
    kept = folder / url.rsplit("/", 1)[-1]
    if kept.exists() and digest_of_file(kept) == sha256:
        return kept
    with scratch_folder(folder) as scratch:
        fetched = scratch / kept.name
        try:
            download(url, fetched)
        except SourceUnavailable as error:
            raise UserError(f"{url} cannot be fetched ({error})") from None
        if digest_of_file(fetched) != sha256:
            raise UserError(f"{url} delivered another file than the published one (wrong sha256)")
        return fetched.replace(kept)


def download(url: str, target: Path, progress: Progress = silent) -> None:
    """Download a file, trying twice; the caller checks its content.

    Raises:
        SourceUnavailable: it cannot be downloaded.
    """
    _require_reachable(url)
    for attempt in range(_ATTEMPTS):
        try:
            return _stream(url, target, progress)
        except urllib.error.HTTPError as error:  # an answer, so asking again changes nothing
            raise SourceUnavailable(f"{target.name}: {error.code} {error.reason}") from None
        except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
            if attempt == _ATTEMPTS - 1:
                reason = getattr(error, "reason", None) or error
                raise SourceUnavailable(f"{target.name}: {reason}") from None
            time.sleep(RETRY_SECONDS)
    return None


def _stream(url: str, target: Path, progress: Progress) -> None:
    with (
        urllib.request.urlopen(url, timeout=STALL_SECONDS) as response,
        target.open("wb") as file,
    ):
        length = int(response.headers.get("Content-Length") or 0)
        blocks = iter(lambda: response.read(_BLOCK), b"")
        for block in progress(blocks, f"downloading {target.name}", -(-length // _BLOCK) or None):
            file.write(block)


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
