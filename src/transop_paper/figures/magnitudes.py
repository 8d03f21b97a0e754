"""Magnitudes: how large each operator is after training."""

from __future__ import annotations

from matplotlib.figure import Figure

from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import magnitude_bars


def compute(run: PaperRun) -> Numbers:
    """Measure the Frobenius norm of every operator."""
    operators = run.model.operators
    arrays = {
        "magnitudes": as_array(operators.magnitudes()),
        "living": as_array(operators.living()),
    }
    return Numbers(arrays, {"n_living": int(arrays["living"].sum())})


def draw(numbers: Numbers) -> Figure:
    """Draw one bar per operator, the largest first."""
    living = numbers["living"]
    title = f"{living.sum()} of {len(living)} operators are in use"
    return magnitude_bars(numbers["magnitudes"], living, title=title)


FIGURE = PaperFigure(
    title="Operator magnitudes",
    caption=(
        "The size of each operator after the last phase. The decay term shrinks operators that no "
        "pair needs, so the number of bars left standing is an estimate of how many directions the "
        "data vary in."
    ),
    paper="Figures 14 and 16",
    compute=compute,
    draw=draw,
)
