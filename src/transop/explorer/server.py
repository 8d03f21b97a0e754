"""Serve the page: on loopback, without the internet, and nothing but the page."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from transop.errors import UserError
from transop.explorer.intake import LARGEST_FILE
from transop.explorer.opened import OpenRun
from transop.explorer.path import warm_up

LOOPBACK = "127.0.0.1"
_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "Menlo", "Consolas", "monospace")
_MOST_VISITORS = 500  # whose images and paths are remembered; the longest absent go first
_UNWANTED = ("GRADIO_ALLOWED_PATHS", "GRADIO_SHARE", "GRADIO_ROOT_PATH", "GRADIO_NUM_WORKERS")


@contextmanager
def serving(
    run: OpenRun, *, host: str = LOOPBACK, port: int | None = None, open_browser: bool = False
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
    uploads = tempfile.mkdtemp(prefix="transop-explorer-")
    _keep_to_ourselves(uploads)
    try:
        import gradio as gr

        from transop.explorer.page import build_page
        from transop.explorer.style import STYLE
    except ImportError:
        raise UserError(
            "the explorer needs Gradio; install it with: pip install 'transop[explore]'"
        ) from None
    page = build_page(run)
    # The first inference compiles for seconds; do that while people still look at the page.
    Thread(target=warm_up, args=(run,), name="transop-warm-up", daemon=True).start()
    try:
        page.launch(
            server_name=host,
            server_port=chosen,
            inbrowser=open_browser,
            prevent_thread_lock=True,
            share=False,
            quiet=True,
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
            theme=gr.themes.Default(font=_FONTS, font_mono=_MONO),
            css=STYLE,
        )
        yield f"http://{_shown(host)}:{chosen}/"
    finally:
        page.close(verbose=False)
        shutil.rmtree(uploads, ignore_errors=True)


def is_loopback(host: str) -> bool:
    """Say whether an address reaches this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _keep_to_ourselves(uploads: str) -> None:
    """Switch off, before Gradio is imported, all that would reach out of this machine."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = uploads
    for name in _UNWANTED:
        os.environ.pop(name, None)
    for name in ("NO_PROXY", "no_proxy"):  # a proxy would be asked for our own page
        kept = os.environ.get(name)
        os.environ[name] = ",".join(filter(None, (kept, "localhost", LOOPBACK)))


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
