"""Lines: accuracies along paths, latent dimensions along a flow, kept identity by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.colours import COLOURS
from transop.plotting.style import MUTED, look, new_figure

_FEW_POINTS = 14  # so short a line shows the points it consists of


@dataclass(frozen=True)
class Line:
    """One curve, with an interval around it if there is one."""

    label: str  # in the legend
    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    half_width: Float[np.ndarray, " n"] | None = None  # half the interval at each position
    colour: str = COLOURS[0]
    style: str = "-"  # as Matplotlib names it
    width: float = 1.8


@dataclass(frozen=True)
class Panel:
    """Axes with lines: what ``line_panels`` arranges on a page."""

    lines: Sequence[Line]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log: bool = False  # draw y on a logarithmic scale
    legend: bool = True  # name the lines, if there are several
    marks: Sequence[float] = ()  # x of thin vertical lines, e.g. where extrapolation begins
    zero: bool = False  # draw a line at y = 0
    limits: tuple[float, float] | None = None  # of y
    note: str = ""  # a sentence below everything else, where no line or legend can cross it


def line_panels(
    panels: Sequence[Panel],
    *,
    columns: int = 2,
    title: str = "",
    panel_inches: tuple[float, float] = (4.2, 2.9),
) -> Figure:
    """Arrange panels of lines on a page, row by row, below a title."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with look():
        width, height = panel_inches
        figure = new_figure(columns * width, rows * height + 0.3 * bool(title))
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            draw_panel(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw a panel into existing axes."""
    for line in panel.lines:
        drawn: Any = {"color": line.colour, "linewidth": line.width, "markersize": 3.5}
        marker = "o" if len(line.x) <= _FEW_POINTS else None
        axes.plot(line.x, line.y, line.style, marker=marker, **drawn)
        if line.half_width is not None:
            low, high = line.y - line.half_width, line.y + line.half_width
            axes.fill_between(line.x, low, high, color=line.colour, alpha=0.16, linewidth=0)
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.limits is not None:
        axes.set_ylim(*panel.limits)
    for mark in panel.marks:
        axes.axvline(mark, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
    if panel.zero:
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=0)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel("\n".join(filter(None, (panel.x_label, panel.note))))
    axes.set_ylabel(panel.y_label)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    if panel.legend and len(panel.lines) > 1:
        handles = [
            axes.plot([], [], line.style, color=line.colour, label=line.label)[0]
            for line in panel.lines
            if line.label
        ]
        axes.legend(handles=handles, fontsize=7.5, handlelength=1.6)


def kept_curves(curves: Sequence[Mapping[str, Any]], identity: str) -> Figure:
    """Draw every source of scales as a curve; the last one, dashed, is the fixed scale.

    The curves are ``KeptCurve.as_dict()``; ``identity`` says whose opinion was kept.
    """
    kept, covered = [], []
    for number, curve in enumerate(curves):
        order = np.argsort(curve["length"])
        x, y, width, spread = (
            np.array(curve[key], dtype=float)[order]
            for key in ("length", "kept", "half_width", "coverage")
        )
        last = number == len(curves) - 1
        colour, style = (MUTED, "--") if last else (COLOURS[number % len(COLOURS)], "-")
        label = curve["source"]
        kept.append(Line(label, x, 100 * y, 100 * width, colour=colour, style=style))
        covered.append(Line(label, x, 100 * spread, colour=colour, style=style))
    axis = "mean length of a move, |dz| / |z|"
    panels = [
        Panel(kept, x_label=axis, y_label="% of moves that keep identity"),
        Panel(covered, x_label=axis, y_label="% of the data's spread covered"),
    ]
    return line_panels(panels, title=f"Identity: {identity}")
