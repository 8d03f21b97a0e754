"""One number per thing: magnitudes of operators, times of solvers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from transop.plotting import COLOURS, FAINT, MUTED, look, new_figure


def magnitude_bars(
    magnitudes: Float[np.ndarray, " m"], living: Bool[np.ndarray, " m"], *, title: str = ""
) -> Figure:
    """Draw one bar per operator, the largest first; those that died are grey."""
    order = np.argsort(-magnitudes)
    with look():
        figure = new_figure(max(4.0, 0.3 * len(magnitudes) + 1.2), 2.8)
        axes = figure.add_subplot(title=title)
        colours = [COLOURS[0] if living[m] else FAINT for m in order]
        axes.bar(range(len(order)), magnitudes[order], color=colours, width=0.72)
        for place, m in enumerate(order):
            if not living[m]:
                axes.text(place, 0, "†", ha="center", va="bottom", color=MUTED, fontsize=8)
        axes.set_xticks(range(len(order)), labels=[str(m) for m in order], fontsize=7.5)
        axes.set_xlabel("operator" + ("" if living.all() else "   († shrunk to almost nothing)"))
        axes.set_ylabel("Frobenius norm")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.tick_params(axis="x", length=0)
    return figure


def time_bars(
    names: Sequence[str],
    seconds: Sequence[Float[np.ndarray, " trials"]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the trials of each contender on a logarithmic axis, the fastest on top.

    Args:
        names: contenders.
        seconds: trials of each.
        title: above the axes.
        notes: one per contender, after its median; none writes none.
    """
    middle = np.array([np.median(trials) for trials in seconds])
    order = np.argsort(-middle)
    with look():
        figure = new_figure(7.2, 0.42 * len(names) + 1.1)
        axes = figure.add_subplot(title=title)
        for place, i in enumerate(order):
            colour = COLOURS[0] if place == len(order) - 1 else MUTED
            axes.plot([middle.min(), middle[i]], [place, place], color=FAINT, linewidth=5, zorder=0)
            axes.plot(seconds[i], np.full(len(seconds[i]), place), ".", color=colour, alpha=0.35)
            axes.plot(middle[i], place, "o", color=colour, markersize=7)
            note = f"  {_readable(middle[i])}" + (f"  {notes[i]}" if notes else "")
            axes.annotate(
                note,
                (max(seconds[i].max(), middle[i]), place),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=colour,
            )
        axes.set_yticks(range(len(order)), labels=[names[i] for i in order])
        axes.set_xscale("log")
        axes.set_xlabel("seconds for a batch")
        axes.set_xlim(right=max(t.max() for t in seconds) * 100)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure


def _readable(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
