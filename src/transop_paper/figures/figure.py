"""What every figure of the paper consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from transop.plotting import About
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun


@dataclass(frozen=True)
class PaperFigure:
    """A figure: how to compute its numbers and how to draw them.

    Attributes:
        title: what it is, in a few words.
        caption: what it shows and how to read it, in plain words.
        paper: where the paper shows it, e.g. ``"Figure 4"``.
        compute: numbers from a trained run.
        draw: a picture from the numbers alone.
        needs: training phases the run must have been through.
        columns: what its images must come with: labels, attributes or factors.
    """

    title: str
    caption: str
    paper: str
    compute: Callable[[PaperRun], Numbers]
    draw: Callable[[Numbers], Figure]
    needs: tuple[str, ...] = ("operators",)
    columns: tuple[str, ...] = ()

    def about(self) -> About:
        """Give the words that stand beside the picture."""
        place = f"{self.paper} of the paper" if any(map(str.isdigit, self.paper)) else ""
        return About(self.title, self.caption, place)
