"""Layout of the view Map: the latent points in two dimensions."""

from html import escape

import gradio as gr
import numpy as np

from transop.colours import COLOURS
from transop_app.explorer.html import asset, bars, captioned, colour_bar, heading, notice, ramp
from transop_app.explorer.latent_map import LatentMap, draw_map
from transop_app.explorer.opened import NINE_IN_TEN, ExploredRun
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.events import QUICK, sentences

_SIDE, _MARGIN = 600, 14
_MORE = ("#8c564b", "#7f7f7f", "#bcbd22", "#17becf")  # for data with more than six classes
_BY_CLASS = "class"


def lay_out(run: ExploredRun, _: Uploads) -> None:
    """Lay the view out inside the current tab."""
    if run.images is None:
        gr.HTML(notice(run.missing + " The map needs them.", tone="missing"))
        return
    found = draw_map(run)
    choices = [("class", _BY_CLASS)] if found.labels is not None else []
    if found.scales is not None:
        choices += [(f"scale of operator {m}", str(i)) for i, m in enumerate(run.living_operators)]
    first = choices[0][1] if choices else ""
    with gr.Row():
        with gr.Column(min_width=320, scale=2):
            if choices:
                colour = gr.Dropdown(choices, value=first, label="Colour", elem_id="map-colour")
            drawn = gr.HTML(
                _draw(run, found, first, 0), js_on_load=asset("points.js"), elem_id="map"
            )
        with gr.Column(min_width=260):
            last = len(found.points)
            number = gr.Slider(
                1, last, value=1, step=1, label="Image", buttons=[], elem_id="map-point"
            )
            about = gr.HTML(_about(run, found, 0), elem_id="map-about")

    def clicked(event: gr.EventData) -> list[object]:
        with sentences():
            point = getattr(event, "point", None)
            point = min(max(0, point if isinstance(point, int) else 0), last - 1)
            return [point + 1, _about(run, found, point)]

    def coloured(by: str, image: float) -> str:
        return _draw(run, found, by, int(image) - 1)

    drawn.click(clicked, None, [number, about], **QUICK)
    number.input(lambda image: _about(run, found, int(image) - 1), number, about, **QUICK)
    if choices:
        for event in (colour.input, number.change):
            event(coloured, [colour, number], drawn, **QUICK)


def _draw(run: ExploredRun, found: LatentMap, by: str, chosen: int) -> str:
    """Draw the points, coloured, with the chosen one ringed."""
    low, high = found.points.min(0), found.points.max(0)
    unit = (found.points - low) / np.maximum(high - low, 1e-12).max()
    places = _MARGIN + unit * (_SIDE - 2 * _MARGIN)
    height = places[:, 1].max() + _MARGIN
    colours, legend = _colours(run, found, by)
    dots = [
        f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="6" fill="{colour}" data-point="{i}"/>'
        for i, ((x, y), colour) in enumerate(zip(places, colours, strict=True))
    ]
    x, y = places[chosen]
    # Drawn last, on top of its neighbours.
    ring = (
        f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="10" fill="{colours[chosen]}" '
        'stroke="currentColor" stroke-width="3" pointer-events="none"/>'
    )
    words = (
        f"{len(dots)} held-out images; these two directions show {found.share:.0%} of the spread"
    )
    return (
        f'<svg class="tp-map" viewBox="0 0 {_SIDE} {height:.0f}" role="img" '
        f'aria-label="{words}">{"".join(dots)}{ring}</svg>{legend}{notice(words)}'
    )


def _colours(run: ExploredRun, found: LatentMap, by: str) -> tuple[list[str], str]:
    """Choose the colour of every point, and explain the colours."""
    if by == _BY_CLASS and found.labels is not None:
        palette = (*COLOURS[:-1], *_MORE)
        names = run.class_names
        entries = [
            f'<span><i style="border-top:9px solid {palette[k % len(palette)]}"></i>'
            f"{escape(name)}</span>"
            for k, name in enumerate(names)
        ]
        legend = f'<div class="tp-legend">{"".join(entries)}</div>'
        return [palette[int(k) % len(palette)] for k in found.labels], legend
    if by.isdigit() and found.scales is not None and int(by) < found.scales.shape[1]:
        values = found.scales[:, int(by)]
        # A single image that may go very far would leave all others dark.
        low, high = (float(end) for end in np.quantile(values, (0.02, 0.98)))
        shares = (values - low) / max(high - low, 1e-12)
        ends = ("may go least", "may go furthest")
        return [ramp(float(share)) for share in shares], colour_bar(low, high, ends)
    words = "One colour: the images have no labels and the run has no coefficient encoder."
    return [COLOURS[0]] * len(found.points), notice(words, tone="missing")


def _about(run: ExploredRun, found: LatentMap, point: int) -> str:
    """Show one point's image and its ranges."""
    assert run.images is not None
    row = int(run.shown_rows[point])
    image, words = run.images.batch([row])[0].numpy(), f"image {row + 1}"
    if found.labels is not None:
        words += f", class {run.class_names[int(found.labels[point])]}"
    if found.scales is None:
        missing = "No scales: this run has no coefficient encoder."
        return captioned(image, words) + notice(missing, tone="missing")
    names = [f"operator {m}" for m in run.living_operators]
    head = heading("Range that keeps identity here, to either side")
    return (
        captioned(image, words)
        + head
        + bars((NINE_IN_TEN * found.scales[point]).tolist(), names, unit="plain")
    )
