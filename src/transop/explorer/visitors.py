"""What the server remembers of its visitors: their images and paths, and no more."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder


class Visitors(StateHolder):
    """Keep each visitor's states, and nothing else that grows with what they do."""

    def __init__(self, page: gr.Blocks) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.set_blocks(page)

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self:
            self.session_data[session_id] = Visitor(self.blocks)
        return super().__getitem__(session_id)


class Visitor(SessionState):
    """One visitor's states, and the parts of the page as they last were, one of each.

    Gradio keeps the last picture in every part, for links into a page as somebody has left it, and
    a new part for every answer that changes a label, each under a number of its own. This page
    offers no such links, and a new part takes the place of the old one; otherwise a server would
    grow for as long as it is used.
    """

    def __init__(self, page: gr.Blocks) -> None:
        super().__init__(page)
        self.config_values = _Forgotten()

    def __setitem__(self, key: int, value: Any) -> None:
        known = self.blocks_config.blocks.get(key)
        if known is not None and not isinstance(known, gr.State):
            value._id = key  # or the next answer would file it under a number of its own
        super().__setitem__(key, value)


class _Forgotten(dict[int, Any]):
    """Takes anything and holds nothing."""

    def __setitem__(self, key: int, value: Any) -> None:
        return

    def __missing__(self, key: int) -> dict[str, Any]:
        return {}
