"""From a figure's description to its files: numbers first, then a picture of what is on disk."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from transop.plotting import save_figure
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun

logger = logging.getLogger(__name__)


def make_figure(name: str, figure: PaperFigure, run: PaperRun, folder: Path) -> list[Path]:
    """Compute a figure's numbers, write them, and draw what was written.

    Args:
        name: of the files.
        figure: what to make.
        run: what to compute from.
        folder: where the files go.

    Returns:
        ``name.npz``, ``name.json``, ``name.png`` and ``name.svg``.
    """
    start = time.monotonic()
    numbers = figure.compute(run)
    written = numbers.save(folder / name, figure.about())
    written += redraw_figure(name, figure, folder)
    logger.info("%s: %.1f s", name, time.monotonic() - start)
    return written


def redraw_figure(name: str, figure: PaperFigure, folder: Path) -> list[Path]:
    """Draw a figure again from the numbers on disk."""
    stem = folder / name
    return save_figure(figure.draw(Numbers.load(stem)), stem)


def unmet_needs(figure: PaperFigure, run: PaperRun) -> list[str]:
    """Say what a figure needs that the run or its images do not have, one clause each."""
    phases = [phase for phase in figure.needs if phase not in run.model.phases]
    columns = [name for name in figure.columns if getattr(run.dataset, name) is None]
    return [
        *(f"images with {name}, which '{run.dataset.meta.name}' has not" for name in columns),
        *(
            f"the phase '{phase}', which this run has not been through; train it with: transop "
            "train RECIPE --resume"
            for phase in phases
        ),
    ]
