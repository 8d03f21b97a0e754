"""Serve the page: on loopback, without the internet, and nothing but the page."""

from __future__ import annotations

import inspect
import os
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

from transop.errors import UserError
from transop.explorer.intake import LARGEST_FILE
from transop.explorer.opened import ExploredRun
from transop.explorer.path import warm_up

if TYPE_CHECKING:
    from gradio import Blocks

LOOPBACK = "127.0.0.1"
_UPLOADS = "transop-explorer-"
_MOST_VISITORS = 500  # whose images and paths are remembered; the longest absent go first
# Each thread keeps memory of its own, and more of them than cores gain nothing. Two slow answers at
# a time (``PATIENT``) leave room for quick ones.
_THREADS = 4
_HEAD_START = 1.5  # seconds
_UNWANTED = ("GRADIO_ALLOWED_PATHS", "GRADIO_SHARE", "GRADIO_ROOT_PATH", "GRADIO_NUM_WORKERS")


@contextmanager
def serving(
    run: ExploredRun, *, host: str = LOOPBACK, port: int | None = None, open_browser: bool = False
) -> Iterator[str]:
    """Serve the page about a run while the block lasts.

    Args:
        run: what to show.
        host: the address to listen on; loopback reaches nobody else.
        port: where; a free one if left out.
        open_browser: show the page in the user's browser.

    Yields:
        The page's address.
    """
    chosen = _free_port(host, port)
    with tempfile.TemporaryDirectory(prefix=_UPLOADS, ignore_cleanup_errors=True) as uploads:
        _keep_to_ourselves(uploads)
        page = _build(run)
        # Done while people still look around, but not while their browser loads the page.
        warming = Timer(_HEAD_START, warm_up, (run,))
        warming.daemon = True
        try:
            _launch(page, host, chosen)
            warming.start()
            address = f"http://{_shown(host)}:{chosen}/"
            if open_browser:
                webbrowser.open(address)
            yield address
        finally:
            warming.cancel()
            page.close(verbose=False)


def _build(run: ExploredRun) -> Blocks:
    """Import Gradio and lay out the page."""
    try:
        with _no_hints_for_editors():
            from transop.explorer.page import build_page
    except ImportError:
        raise UserError(
            "the explorer needs Gradio; install it with: pip install 'transop[explore]'"
        ) from None
    return build_page(run)


def _launch(page: Blocks, host: str, port: int) -> None:
    """Serve the page from a thread of its own, with all that would share it switched off."""
    from transop.explorer.page import look
    from transop.explorer.style import STYLE
    from transop.explorer.visitors import Visitors

    page.launch(
        server_name=host,
        server_port=port,
        inbrowser=False,
        prevent_thread_lock=True,
        share=False,
        quiet=True,
        max_threads=_THREADS,
        show_error=False,
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        max_file_size=LARGEST_FILE,
        state_session_capacity=_MOST_VISITORS,
        theme=look(),
        css=STYLE,
    )
    page.app.state_holder = Visitors(page)


def is_loopback(host: str) -> bool:
    """Say whether an address reaches this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _keep_to_ourselves(uploads: str) -> None:
    """Switch off, before Gradio is imported, all that would reach out of this machine."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = uploads
    os.environ.setdefault("MPLBACKEND", "agg")  # or each answer would look for a window to draw in
    # After every answer Gradio would sum up all answers before it, for a page nobody is shown.
    os.environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(10**12)
    for name in _UNWANTED:
        os.environ.pop(name, None)
    for name in ("NO_PROXY", "no_proxy"):  # a proxy would be asked for our own page
        kept = os.environ.get(name)
        os.environ[name] = ",".join(filter(None, (kept, "localhost", LOOPBACK)))


@contextmanager
def _no_hints_for_editors() -> Iterator[None]:
    """Keep Gradio, while it is imported, from writing hints for editors into its own folder.

    That takes longer than the rest of its import. It leaves out what it finds no file of.
    """
    usual = inspect.getfile

    def getfile(thing: Any) -> str:
        if type(thing).__name__ == "ComponentMeta":
            raise OSError("no hints wanted")
        return usual(thing)

    setattr(inspect, "getfile", getfile)  # noqa: B010
    try:
        yield
    finally:
        setattr(inspect, "getfile", usual)  # noqa: B010


def _free_port(host: str, port: int | None) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port or 0))
            return int(probe.getsockname()[1])
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        where = host if port is None else f"{host}, port {port}"
        raise UserError(f"cannot listen on {where} ({reason}); choose another") from None


def _shown(host: str) -> str:
    """Write a host as a browser on this machine reaches it."""
    if host in ("0.0.0.0", "::"):
        return LOOPBACK if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host
