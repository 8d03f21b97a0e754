"""Choose an image: from the held-out ones by class, by upload, or by drawing.

Uploads go straight to the server's memory; Gradio's own uploads are closed.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import gradio as gr
import numpy as np
import torch
from torch import Tensor

from transop.data import EXTENSIONS
from transop_app.explorer.html import asset, notice
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.uploads import LARGEST_FILE, Uploads, read_bytes, read_drawing
from transop_app.explorer.views.events import CHOOSING, PATIENT, sentences

Handler = Callable[[Tensor], Any]

_ANY = -1


class Chooser:
    """Three small tabs to choose an image: pick, upload, draw."""

    def __init__(self, run: ExploredRun, uploads: Uploads, key: str, *, number: int = 1) -> None:
        self.run = run
        self.uploads = uploads
        with gr.Tabs(elem_classes="tp-chooser"):
            with gr.Tab("Pick"):
                self._pick(key, number)
            with gr.Tab("Upload"):
                words = "Choose an image file, or drop it here"
                self.upload = file_field(f"{key}-upload", words)
                gr.HTML(notice("At most 20 MB. Cropped to a square and resized for the model."))
            with gr.Tab("Draw"):
                self.drawing = gr.HTML(
                    html_template=_canvas(run), js_on_load=asset("canvas.js"), elem_id=f"{key}-draw"
                )

    def _pick(self, key: str, number: int) -> None:
        if self.run.images is None:
            gr.HTML(notice(self.run.missing + " Upload or draw one.", tone="missing"))
            return
        with gr.Row(elem_classes="tp-pick"):
            choices: list[tuple[str, int]] = [("any", _ANY)]
            if self.run.has_labels:
                choices += [(name, k) for k, name in enumerate(self.run.class_names)]
            label = gr.Dropdown(
                choices,
                value=_ANY,
                label="Class",
                interactive=self.run.has_labels,
                info=None if self.run.has_labels else "these images have no labels",
                min_width=100,
                elem_id=f"{key}-class",
            )
            position = gr.Number(
                number,
                label="Number",
                precision=0,
                minimum=1,
                min_width=80,
                elem_id=f"{key}-number",
            )
            another = gr.Button("Next", min_width=72, scale=0, elem_id=f"{key}-next")
        self.picking = (label, position, another)

    def connect(self, handle: Handler, outputs: Sequence[Any]) -> None:
        """Call a handler with every image chosen; it gives the values of the outputs."""
        outputs = list(outputs)
        if self.run.images is not None:
            self._connect_picking(handle, outputs)

        def uploaded(event: gr.EventData) -> Any:
            with sentences():
                ((name, content), *_) = self.uploads.take(getattr(event, "files", None))
                return handle(read_bytes(content, name, self.run.model))

        def drawn(event: gr.EventData) -> Any:
            with sentences():
                return handle(read_drawing(getattr(event, "picture", None), self.run.model))

        self.upload.submit(uploaded, None, outputs, **PATIENT)
        self.drawing.submit(drawn, None, outputs, **CHOOSING)

    def _connect_picking(self, handle: Handler, outputs: list[Any]) -> None:
        label, position, another = self.picking

        def picked(kind: int, number: float | None) -> Any:
            with sentences():
                chosen = None if kind == _ANY else kind
                return handle(self.run.example(chosen, int(number or 0)))

        def following(kind: int, number: float | None) -> list[Any]:
            count = len(self.run.rows(None if kind == _ANY else kind))
            step = int(number or 0) % max(1, count) + 1
            return [step, *picked(kind, step)]

        def of_class(kind: int) -> list[Any]:
            return [1, *picked(kind, 1)]

        def typed(kind: int, number: float | None) -> Any:
            # The field is empty while somebody writes another number.
            return picked(kind, 1 if number is None else number)

        both = [label, position]
        position.input(typed, both, outputs, **CHOOSING)
        another.click(following, both, [position, *outputs], **CHOOSING)
        label.input(of_class, label, [position, *outputs], **CHOOSING)


def first_image(run: ExploredRun, number: int = 1) -> Tensor:
    """Give the image shown before anybody has chosen one: grey without held-out images."""
    if run.images is None:
        return torch.full(run.model.image_shape, 0.5)
    return run.example(None, min(number, len(run.rows())))


def file_field(key: str, words: str, *, button: str = "", zips: bool = False) -> gr.HTML:
    """Lay out a field for files; its event ``submit`` lists what was sent.

    With a ``button`` several files may be chosen, and are sent when it is pressed; without one
    a file is sent as soon as it is chosen.
    """
    kinds = ",".join([*sorted(EXTENSIONS), *([".zip"] if zips else [])])
    several = " multiple" if button else ""
    text = (
        f'<label class="tp-file">{escape(words)}'
        f'<input type="file" accept="{kinds}"{several}></label><p role="status"></p>'
    )
    if button:
        text += f'<button type="button" class="tp-go">{escape(button)}</button>'
    script = asset("send.js").replace("LARGEST", str(LARGEST_FILE))
    return gr.HTML(html_template=text, js_on_load=script, elem_id=key)


def _canvas(run: ExploredRun) -> str:
    """Make a canvas of the data's own background: digits are white on black, say."""
    paper = "#000000"
    if run.images is not None:
        edge = run.images.images[:100, :, 0, :].mean()
        paper = "#ffffff" if edge > np.iinfo(np.uint8).max / 2 else "#000000"
    ink = "#000000" if paper == "#ffffff" else "#ffffff"
    colour = ""
    if run.model.image_shape[0] == 3:
        colour = f'<label>Colour <input type="color" value="{ink}"></label>'
    return (
        f'<canvas width="280" height="280" data-paper="{paper}" data-ink="{ink}" '
        'aria-label="Draw an image here"></canvas>'
        f'<div class="tp-tools">{colour}<button type="button">Clear</button></div>'
    )
