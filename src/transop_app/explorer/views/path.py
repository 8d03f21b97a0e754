"""Layout of the view Path: the path between two images and beyond."""

from functools import partial
from typing import Any

import gradio as gr
import numpy as np
import torch
from torch import Tensor

from transop_app.explorer.html import (
    bars,
    captioned,
    curves,
    download,
    heading,
    notice,
    picture,
    strip,
)
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.path import (
    FROM,
    TO,
    FoundPath,
    Track,
    find_path,
    frames_at,
    notable_classes,
)
from transop_app.explorer.transform import class_name
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.choose import Chooser, first_image
from transop_app.explorer.views.events import PATIENT, QUICK, sentences

_EVERY = 4  # of the frames, how many apart those of the strip are
_EVERY_MOVING = 2  # and those of the moving image
# The style sheet hides the result until there is one. Gradio's own means to show and hide a row
# would keep a new row in the session for every answer.
_SHOW = "<style>#path{display:flex!important}</style>"


def lay_out(run: ExploredRun, uploads: Uploads) -> None:
    """Lay the view out inside the current tab."""
    ends = []
    with gr.Row():
        for key, title, number in (("path-start", "Start", 1), ("path-end", "End", 2)):
            with gr.Column(min_width=400), gr.Row(elem_classes="tp-end"):
                image = first_image(run, number)
                shown = gr.HTML(captioned(image.numpy(), title), elem_id=f"{key}-image")
                with gr.Column(min_width=160):
                    chooser = Chooser(run, uploads, key, number=number)
                ends.append((chooser, title, gr.State(image.numpy()), shown))
    go = gr.Button("Show the path from start to end", variant="primary", elem_id="find-path")
    track = gr.State(None)
    with gr.Row(elem_id="path"):
        with gr.Column(min_width=280):
            t = gr.Slider(FROM, TO, value=1, step=(TO - FROM) / 64, label="t", elem_id="time")
            frame = gr.HTML(elem_id="frame")
        with gr.Column(min_width=280):
            facts = gr.HTML(elem_id="path-facts")
    strips = gr.HTML(elem_id="strips")

    def find(start: Any, end: Any) -> list[Any]:
        with sentences():
            found = find_path(run, torch.from_numpy(start), torch.from_numpy(end))
            moment = _frame(run, found.track, 1.0)
            return [found.track, 1.0, moment, _facts(found), _SHOW + _strips(run, found)]

    def moment_at(kept: Track | None, at: float) -> str:
        with sentences():
            return _frame(run, kept, at)

    outputs = [track, t, frame, facts, strips]
    go.click(find, [state for _, _, state, _ in ends], outputs, **PATIENT)
    t.input(moment_at, [track, t], frame, **QUICK)

    def chosen(title: str, image: Tensor) -> list[Any]:
        # What was found for the ends before no longer holds.
        return [image.numpy(), captioned(image.numpy(), title), None, ""]

    for chooser, title, state, shown in ends:
        chooser.connect(partial(chosen, title), [state, shown, track, strips])


def _frame(run: ExploredRun, track: Track | None, t: float) -> str:
    """Show the path and the straight line at one time, large."""
    if track is None:
        return notice("Show the path first.")
    time, path, line = frames_at(run, track, t)
    pair = captioned(path, f"operators, t = {time:.2f}")
    pair += captioned(line, f"straight line, t = {time:.2f}")
    return f'<div class="tp-pair">{pair}</div>'


def _facts(found: FoundPath) -> str:
    """Say which operators the path uses and how well it arrives, and offer it as files."""
    # Imported here: it loads Matplotlib, which is slow.
    from transop.plotting import animate, image_grid, render_figure

    words = (
        f"At t = 1 the path is {found.residual:.0%} of the latent length away from the end image"
    )
    text = notice(words + ("." if found.converged else "; inference did not converge."))
    used = found.coefficients.nonzero()[0]
    used = used[np.abs(found.coefficients[used]).argsort(kind="stable")[::-1]]
    if len(used):
        text += heading("Coefficients, strongest first")
        names = [f"operator {m}" for m in used]
        text += bars(found.coefficients[used].tolist(), names, unit="signed")
    else:
        words = "Every coefficient is zero: these images are no pair for the learned operators."
        text += notice(words, tone="beyond")
    gif = animate(found.path.frames[::_EVERY_MOVING])
    moving = picture(gif, "image/gif", "the moving image", look="medium")
    saves = download(gif, "image/gif", "path.gif", "Save as GIF")
    kinds = np.stack([found.path.frames[::_EVERY], found.line.frames[::_EVERY]])
    times = [f"{t:.3g}" for t in found.track.times[::_EVERY]]
    sheet = image_grid(kinds, row_labels=["operators", "straight line"], column_labels=times)
    saves += download(render_figure(sheet, "png"), "image/png", "path.png", "Save as PNG")
    return f'{text}<div class="tp-moving">{moving}{saves}</div>'


def _strips(run: ExploredRun, found: FoundPath) -> str:
    """Show both strips and, with a classifier, how sure it is along them."""
    times = [f"{t:.3g}" for t in found.track.times[::_EVERY]]
    kinds = {"operators": found.path, "straight line": found.line}
    text = "".join(
        strip(
            kind.frames[::_EVERY],
            times,
            f"Along the {name} (t below each image)",
            marked=times.index("1"),
        )
        for name, kind in kinds.items()
    )
    if found.path.probabilities is None:
        words = "No probability curve: this run has no classifier (train its phase 'classifier')."
        return text + notice(words, tone="missing")
    lines = [
        (
            f"{class_name(run, label)}, {name}",
            kind.probabilities[:, label].tolist(),
            kind is found.line,
        )
        for label in notable_classes(found)
        for name, kind in kinds.items()
        if kind.probabilities is not None
    ]
    title = "Probability along the path, over t: start at 0, end at 1"
    times_shown = found.track.times.tolist()
    return text + curves(times_shown, lines, title=title, limits=(0, 1), ticks=(0, 1, 2))
