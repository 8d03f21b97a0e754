"""Training curves: the loss of every phase."""

from matplotlib.figure import Figure

from transop_app.report.curves import CURVES_ABOUT, collect_curves, training_curves
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun


def compute(run: PaperRun) -> Numbers:
    """Read the metrics of the run."""
    curves, labels = collect_curves(run.metrics)
    return Numbers(curves, {"labels": labels})


def draw(numbers: Numbers) -> Figure:
    """Draw one panel per phase."""
    return training_curves(numbers.arrays, numbers.facts["labels"])


_WORDS = f"{CURVES_ABOUT.title}.\n\n{CURVES_ABOUT.caption}"
FIGURE = PaperFigure(_WORDS, "ours", compute, draw, needs=())
