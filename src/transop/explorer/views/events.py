"""How handlers are attached: quick ones answer at once, a user's mistake becomes a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr

from transop.errors import UserError

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
    """Show a user's mistake as its sentence."""
    try:
        yield
    except UserError as error:
        raise gr.Error(str(error), title="Not possible", print_exception=False) from None
