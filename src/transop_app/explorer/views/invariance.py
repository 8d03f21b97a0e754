"""Layout of the view Invariance: a class-by-operator map, and a strip for a chosen cell."""

from html import escape

import gradio as gr
import numpy as np

from transop.evaluation import Invariance, draw_strip, measure_invariance
from transop_app.explorer.html import asset, colour_bar, notice, ramp, strip
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.uploads import Uploads
from transop_app.explorer.views.events import CHOOSING, QUICK, sentences

_LOOKED_AT = 600
_BY_MOVE, _BY_SCALE = "move", "scale"


def lay_out(run: ExploredRun, _: Uploads) -> None:
    """Lay the view out inside the current tab."""
    reason = why_not(run)
    if reason or run.images is None:
        gr.HTML(notice(reason, tone="missing"))
        return
    found = measure_invariance(run.model, run.images, n_images=_LOOKED_AT)
    words = (
        "How far each operator can move images of a class before they lose their identity "
        f"({found.identity}). Light: far, the class is invariant. Dark: not far. Choose a cell to "
        "see images."
    )
    gr.HTML(notice(words))
    kinds = [
        ("distance moved, in % of the latent length", _BY_MOVE),
        ("scale of the coefficient, as in the paper", _BY_SCALE),
    ]
    kind = gr.Radio(kinds, value=_BY_MOVE, label="Show", elem_id="heat-kind")
    heat = gr.HTML(heat_map(found), js_on_load=asset("cells.js"), elem_id="heat")
    shown = gr.HTML(elem_id="tolerance")

    def clicked(event: gr.EventData) -> str:
        with sentences():
            return cell_strip(run, found, str(getattr(event, "cell", None)))

    heat.click(clicked, None, shown, **CHOOSING)
    kind.input(lambda by: heat_map(found, by_scale=by == _BY_SCALE), kind, heat, **QUICK)


def why_not(run: ExploredRun) -> str:
    """Say what the view lacks; empty if it lacks nothing."""
    if run.model.coefficient_encoder is None:
        return (
            "No map of invariances: this run has no coefficient encoder "
            "(train its phase 'coefficient_encoder')."
        )
    if run.images is None:
        return run.missing + " The map of invariances needs them."
    if not run.has_labels and not run.model.names_classes:
        return "No map of invariances: neither labels nor a classifier give the images a class."
    return ""


def heat_map(found: Invariance, *, by_scale: bool = False) -> str:
    """Draw the map as a table of buttons, coloured over its whole range.

    ``by_scale`` shows the scales of coefficients, which are large where an operator is weak,
    instead of the moves they make.
    """
    values = found.scales if by_scale else found.moves
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    head = "".join(f"<th>{m}</th>" for m in found.operators)
    rows = []
    for label, name in enumerate(found.class_names):
        cells = []
        for column, value in enumerate(values[label]):
            share = (float(value) - low) / max(high - low, 1e-12)
            text = f"{value:.2f}" if by_scale else f"{100 * value:.1f}"
            words = f"{name}, operator {found.operators[column]}: {text}"
            cells.append(_cell(f"{label},{column}", words, text, share))
        rows.append(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>")
    table = f"<tr><th>operator</th>{head}</tr>{''.join(rows)}"
    factor = 1 if by_scale else 100
    legend = colour_bar(factor * low, factor * high, ("least", "furthest"))
    return f'<div class="tp-wide"><table class="tp-heat">{table}</table></div>{legend}'


def _cell(place: str, words: str, text: str, share: float) -> str:
    """Draw one cell; a class without images has empty ones."""
    if not np.isfinite(share):
        return "<td></td>"
    ink = "#000" if share > 0.5 else "#fff"
    stop = 0 if place == "0,0" else -1
    return (
        f'<td><button type="button" data-cell="{place}" tabindex="{stop}" aria-pressed="false" '
        f'aria-label="{escape(words)}" title="{escape(words)}" '
        f'style="background:{ramp(share)};color:{ink}">{text}</button></td>'
    )


def cell_strip(run: ExploredRun, found: Invariance, cell: str) -> str:
    """Show a typical image of a cell's class moved by its operator, to either side.

    ``cell`` is row and column, such as "2,5"; anything else asks for a choice.
    """
    label, _, column = cell.partition(",")
    rows, columns = found.scales.shape
    is_cell = label.isdecimal() and column.isdecimal()
    if run.images is None or not is_cell or int(label) >= rows or int(column) >= columns:
        return notice("Choose a cell of the map.")
    row, place = int(label), int(column)
    scale = float(found.scales[row, place])
    if not np.isfinite(scale):
        return notice("This class has no held-out image; choose another row.")
    chosen = next(t for t in found.ranking(row) if t.operator == found.operators[place])
    drawn = draw_strip(run.model, run.images, found, chosen)
    captions = [f"{c:+.2g}" for c in drawn.coefficients]
    below = "coefficient"
    if drawn.opinions is not None:
        names = [found.class_names[int(k)] for k in drawn.opinions]
        captions = [f"{words}\n{name}" for words, name in zip(captions, names, strict=True)]
        below = "coefficient, what the classifier sees"
    title = (
        f"A typical {found.class_names[row]} moved by operator {found.operators[place]}, "
        f"average scale {scale:.3g} (below: {below})"
    )
    return strip(drawn.frames, captions, title, marked=len(captions) // 2)
