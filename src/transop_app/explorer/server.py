"""Serve the page: without the internet, to its own page only, and nothing but the page."""

from __future__ import annotations

import os
import socket
import tempfile
import time
import webbrowser
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

from transop.errors import UserError
from transop.extras import require
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.path import warm_up
from transop_app.explorer.uploads import Uploads

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = "127.0.0.1"
_FOLDER = "transop-explorer-"
_MOST_SESSIONS = 100  # whose images and paths are remembered; the longest absent go first
_LONGEST_QUEUE = 200  # calls that wait
# Each thread keeps memory of its own, and many more of them than cores gain nothing. Two slow
# answers at a time (``PATIENT``) leave room for quick ones.
_THREADS = 5
_HEAD_START = 1.5  # seconds
_PATIENCE = 5  # seconds that answers under way are given when the server stops


@contextmanager
def serving(
    run: ExploredRun,
    *,
    host: str = LOOPBACK,
    port: int | None = None,
    open_browser: bool = False,
    allow_hosts: Iterable[str] = (),
) -> Iterator[str]:
    """Serve the page about a run while the block lasts.

    Yields the page's address.
    """
    with _listen(host, port) as listener, tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        _keep_to_ourselves(folder)
        server = _build(run, {host, *allow_hosts} - {"0.0.0.0", "::"})
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        # Done while people still look around, but not while their browser loads the page.
        warming = Timer(_HEAD_START, warm_up, (run,))
        warming.daemon = True
        try:
            thread.start()
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            if not server.started:
                raise RuntimeError("the web server did not start")
            warming.start()
            address = f"http://{_shown(host)}:{listener.getsockname()[1]}/"
            if open_browser:
                webbrowser.open(address)
            yield address
        finally:
            warming.cancel()
            server.should_exit = True
            thread.join(2 * _PATIENCE)


def _build(run: ExploredRun, names: set[str]) -> uvicorn.Server:
    """Lay out the page and put the gate in front of it."""
    require("explore", "the explorer")

    import gradio as gr
    import uvicorn
    from fastapi import FastAPI
    from fastapi.middleware.cors import CORSMiddleware

    from transop_app.explorer.calls import call_checker
    from transop_app.explorer.gate import LOCAL_NAMES, Gate
    from transop_app.explorer.html import asset
    from transop_app.explorer.page import build_page, look

    uploads = Uploads()
    page = build_page(run, uploads)
    # `launch` has an argument for this, `mount_gradio_app` (Gradio 6.31) has none; pyproject.toml
    # keeps Gradio below 7.
    page.state_session_capacity = _MOST_SESSIONS
    page.queue(max_size=_LONGEST_QUEUE, api_open=False)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=_few_threads)
    app.add_middleware(CORSMiddleware, allow_origins=[])  # makes Gradio add no CORS headers
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        show_error=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        theme=look(),
        css=asset("page.css"),
    )
    check = call_checker(page.get_config_file())
    gate = Gate(app, names={*LOCAL_NAMES, *names}, uploads=uploads, check_call=check)
    config = uvicorn.Config(
        gate,
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
    )
    return uvicorn.Server(config)


@asynccontextmanager
async def _few_threads(app: Any) -> AsyncIterator[None]:
    """Bound the threads that answer, while the server runs."""
    from anyio.to_thread import current_default_thread_limiter

    current_default_thread_limiter().total_tokens = _THREADS
    yield


def is_loopback(host: str) -> bool:
    """Say whether an address reaches this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _keep_to_ourselves(folder: str) -> None:
    """Switch off, before Gradio is imported, all that would reach out of this machine."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = folder  # nothing is written there, but Gradio asks for one
    os.environ.setdefault("MPLBACKEND", "agg")  # or each answer would look for a window to draw in
    # After every answer Gradio would sum up all answers before it, for a page nobody is shown.
    os.environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(10**12)
    os.environ.pop("GRADIO_ROOT_PATH", None)


@contextmanager
def _listen(host: str, port: int | None) -> Iterator[socket.socket]:
    """Open the socket that the server listens on."""
    family: Any = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port or 0), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        where = host if port is None else f"{host}, port {port}"
        raise UserError(f"cannot listen on {where} ({reason}); choose another") from None
    with listener:
        yield listener


def _shown(host: str) -> str:
    """Write a host as a browser on this machine reaches it."""
    if host in ("0.0.0.0", "::"):
        return LOOPBACK if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host
