"""How handlers are attached: quick ones answer at once, a user's mistake becomes a sentence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr

from transop.errors import UserError
from transop_app.explorer.html import without_folders

logger = logging.getLogger(__name__)

# Small answers skip the queue; while one is computed only the newest position is kept.
QUICK: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "trigger_mode": "always_last",
    "api_visibility": "private",
}
# Those that may be refused go through the queue: without it the page would not show the sentence.
CHOOSING: dict[str, Any] = {
    "show_progress": "hidden",
    "trigger_mode": "always_last",
    "concurrency_limit": 4,
    "api_visibility": "private",
}
# Larger ones wait in line, two at a time.
PATIENT: dict[str, Any] = {"concurrency_limit": 2, "api_visibility": "private"}


@contextmanager
def sentences() -> Iterator[None]:
    """Show a user's mistake as its sentence; a bug costs one line in the log, not a traceback."""
    try:
        yield
    except UserError as error:
        raise _shown(str(error)) from None
    except Exception as error:
        logger.warning("a handler failed (%s: %s)", type(error).__name__, str(error)[:200])
        raise _shown("This did not work; the server's log says why.") from None


def _shown(words: str) -> gr.Error:
    return gr.Error(without_folders(words), title="Not possible", print_exception=False)
