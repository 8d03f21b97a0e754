"""Latent dimensions along each operator.

Each small panel applies one operator alone to the same image; each line is a latent dimension, the
horizontal axis the coefficient. Flat lines: an operator that shrank to nothing. Waves: a path that
turns. Lines that leave the panel: a path that runs away.
"""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.operators import transport_path
from transop.plotting import COLOURS, FAINT, INK, new_figure, split_rows
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array

_REACH = 5.0
_POINTS = 81
_COLUMNS = 8


def compute(run: PaperRun) -> Numbers:
    """Apply each operator alone to one image over a range of coefficients."""
    row = run.examples()[:1]
    coefficients = torch.linspace(-_REACH, _REACH, _POINTS)
    arrays = {"coefficients": as_array(coefficients)}
    models = run.models_by_pairs()
    facts: dict[str, object] = {"strategies": list(models), "row": int(row[0])}
    for name, model in models.items():
        point = model.encode(run.dataset.batch(row))
        m = model.operators.n_operators
        paths = transport_path(
            model.operators.operators.detach(),
            torch.eye(m, device=point.device),
            point.expand(m, -1),
            coefficients.to(point),
        )
        arrays[name] = as_array(paths)
        growth = paths.norm(dim=2).amax(1) / point.norm()
        facts[f"{name}.growth"] = [round(float(g), 3) for g in growth]
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw one small panel per operator, the strategies below each other."""
    names = numbers.facts["strategies"]
    columns = min(_COLUMNS, max(len(numbers[name]) for name in names))
    rows = [-(-len(numbers[name]) // columns) for name in names]
    # All panels have the same height, so that a path that runs away can be seen to.
    limit = float(2.5 * np.abs(numbers[names[0]][:, _POINTS // 2]).max())
    figure = new_figure(1.15 * columns + 0.4, sum(1.05 * r + 0.35 for r in rows))
    for part, name, n_rows in zip(split_rows(figure, rows), names, rows, strict=True):
        part.suptitle(f"{name} pairs", x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        grid = part.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=True)
        grid[0, 0].set_ylim(-limit, limit)
        for m, (axes, path) in enumerate(zip(grid.flat, numbers[name], strict=False)):
            _draw_operator(axes, numbers["coefficients"], path, str(m))
        for axes in grid.flat[len(numbers[name]) :]:
            axes.set_axis_off()
    return figure


def _draw_operator(axes: Axes, x: np.ndarray, path: np.ndarray, title: str) -> None:
    """Draw every latent dimension along a path as a thin line of its own."""
    for k, values in enumerate(path.T):
        axes.plot(x, values, color=COLOURS[k % len(COLOURS)], linewidth=0.9, alpha=0.9)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_title(title, fontsize=8, color=INK)
    axes.tick_params(labelsize=6.5, length=2)


FIGURE = PaperFigure(__doc__, "Figure 13", compute, draw)
