"""Operator magnitudes.

The size of each operator after the last phase. The decay term shrinks operators that no pair needs,
so the number of bars left standing is an estimate of how many directions the data vary in.
"""

import numpy as np
from matplotlib.figure import Figure

from transop.plotting import COLOURS, FAINT, MUTED, new_figure
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array


def compute(run: PaperRun) -> Numbers:
    """Measure the Frobenius norm of every operator."""
    operators = run.model.operators
    arrays = {
        "magnitudes": as_array(operators.magnitudes()),
        "living": as_array(operators.living()),
    }
    return Numbers(arrays, {"n_living": int(arrays["living"].sum())})


def draw(numbers: Numbers) -> Figure:
    """Draw one bar per operator, the largest first; those that died are grey."""
    magnitudes, living = numbers["magnitudes"], numbers["living"]
    order = np.argsort(-magnitudes)
    figure = new_figure(max(4.0, 0.3 * len(magnitudes) + 1.2), 2.8)
    axes = figure.add_subplot(title=f"{living.sum()} of {len(living)} operators are in use")
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


FIGURE = PaperFigure(__doc__, "Figures 14 and 16", compute, draw)
