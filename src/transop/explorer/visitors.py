"""What the server remembers of its visitors: their images and paths, and no more."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder


class Visitors(StateHolder):
    """Keep each visitor's states, but not the last picture in every part of their page.

    Gradio keeps those for links into a page as somebody has left it, which this page does not
    offer. A zip of augmented images would stay in memory until hundreds of others have come.
    """

    def __init__(self, page: gr.Blocks) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.set_blocks(page)

    def __getitem__(self, session_id: str) -> SessionState:
        is_new = session_id not in self
        visitor = super().__getitem__(session_id)
        if is_new:
            visitor.config_values = _Forgotten()
        return visitor


class _Forgotten(dict[int, Any]):
    """Takes anything and holds nothing."""

    def __setitem__(self, key: int, value: Any) -> None:
        return

    def __missing__(self, key: int) -> dict[str, Any]:
        return {}
