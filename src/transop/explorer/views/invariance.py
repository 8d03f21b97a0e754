"""Layout of the view Invariance: a class-by-operator map, and a strip for a chosen cell."""

from __future__ import annotations

from html import escape

import gradio as gr
import numpy as np

from transop.evaluation import Invariance, draw_strip, measure_invariance
from transop.explorer.fragments import notice, ramp, strip
from transop.explorer.opened import OpenRun
from transop.explorer.views.events import QUICK, sentences

_LOOKED_AT = 600
_CLICK = """
element.addEventListener('click', event => {
  const cell = event.target.closest('[data-cell]');
  if (cell) trigger('click', {cell: cell.dataset.cell});
});
"""


def lay_out(run: OpenRun) -> None:
    """Lay the view out inside the current tab."""
    reason = why_not(run)
    if reason or run.dataset is None:
        gr.HTML(notice(reason, tone="missing"))
        return
    found = measure_invariance(run.model, run.dataset, n_images=_LOOKED_AT)
    words = (
        "How far each operator may carry images of a class before the classifier changes its "
        "mind: light goes far (the class ignores the operator), dark does not. Choose a cell."
    )
    gr.HTML(notice(words))
    heat = gr.HTML(heat_map(found), js_on_load=_CLICK, elem_id="heat")
    shown = gr.HTML(elem_id="tolerance")

    def clicked(event: gr.EventData) -> str:
        with sentences():
            return cell_strip(run, found, str(event._data.get("cell", "")))

    heat.click(clicked, None, shown, **QUICK)


def why_not(run: OpenRun) -> str:
    """Say what the view lacks; empty if it lacks nothing."""
    if run.model.coefficient_encoder is None:
        return (
            "No map of invariances: this run has no coefficient encoder "
            "(train its phase 'coefficient_encoder')."
        )
    if run.dataset is None:
        return run.missing + " The map of invariances needs them."
    if not run.has_labels and not run.model.names_classes:
        return "No map of invariances: neither labels nor a classifier give the images a class."
    return ""


def heat_map(found: Invariance) -> str:
    """Draw the map as a table of buttons, coloured over its whole range."""
    low, high = float(np.nanmin(found.scales)), float(np.nanmax(found.scales))
    head = "".join(f"<th>{m}</th>" for m in found.operators)
    rows = []
    for label, values in enumerate(found.scales):
        cells = []
        for column, value in enumerate(values):
            if not np.isfinite(value):
                cells.append("<td></td>")
                continue
            share = (float(value) - low) / max(high - low, 1e-12)
            ink = "#000" if share > 0.5 else "#fff"
            name = f"{found.class_names[label]}, operator {found.operators[column]}: {value:.3g}"
            cells.append(
                f'<td><button type="button" data-cell="{label},{column}" '
                f'aria-label="{escape(name)}" title="{escape(name)}" style="background:'
                f'{ramp(share)};color:{ink}">{value:.2f}</button></td>'
            )
        rows.append(f"<tr><th>{escape(found.class_names[label])}</th>{''.join(cells)}</tr>")
    table = f"<tr><th>operator</th>{head}</tr>{''.join(rows)}"
    return f'<div class="tp-wide"><table class="tp-heat">{table}</table></div>'


def cell_strip(run: OpenRun, found: Invariance, cell: str) -> str:
    """Show a typical image of a cell's class moved by its operator, to either side.

    Args:
        run: the open run.
        found: the map.
        cell: row and column, such as "2,5"; anything else asks for a choice.
    """
    label, _, column = cell.partition(",")
    rows, columns = found.scales.shape
    is_cell = label.isdecimal() and column.isdecimal()
    if run.dataset is None or not is_cell or int(label) >= rows or int(column) >= columns:
        return notice("Choose a cell of the map.")
    row, place = int(label), int(column)
    scale = float(found.scales[row, place])
    if not np.isfinite(scale):
        return notice("This class has no held-out image; choose another row.")
    chosen = next(t for t in found.ranking(row) if t.operator == found.operators[place])
    drawn = draw_strip(run.model, run.dataset, found, chosen)
    captions = [f"{c:+.2g}" for c in drawn.coefficients]
    if drawn.opinions is not None:
        names = [found.class_names[int(k)] for k in drawn.opinions]
        captions = [f"{words}: {name}" for words, name in zip(captions, names, strict=True)]
    title = (
        f"A typical {found.class_names[row]} moved by operator {found.operators[place]} "
        f"(average scale {scale:.3g})"
    )
    return strip(drawn.frames, captions, title, marked=len(captions) // 2)
