"""Latent curves: every latent dimension along every operator, for two pair strategies."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.model import ManifoldAutoencoder
from transop.operators import transport_path
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import curve_matrix

_REACH = 5.0
_POINTS = 81


def compute(run: PaperRun) -> Numbers:
    """Apply each operator alone to one image over a range of coefficients."""
    row = run.examples()[:1]
    coefficients = torch.linspace(-_REACH, _REACH, _POINTS)
    arrays = {"coefficients": as_array(coefficients)}
    models: dict[str, ManifoldAutoencoder] = {
        run.settings.pairs.strategy: run.model,
        "latent": run.companion("latent-pairs"),
    }
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
    """Draw one small panel per operator, one row of panels per strategy."""
    strategies = numbers.facts["strategies"]
    return curve_matrix(
        numbers["coefficients"],
        [numbers[name] for name in strategies],
        [f"{name} pairs" for name in strategies],
        limit=float(2.5 * np.abs(numbers[strategies[0]][:, _POINTS // 2]).max()),
    )


FIGURE = PaperFigure(
    title="Latent dimensions along each operator",
    caption=(
        "Each small panel applies one operator alone to the same image; each line is a latent "
        "dimension, the horizontal axis the coefficient. Flat lines: an operator that shrank to "
        "nothing. Waves: a path that turns. Lines that leave the panel: a path that runs away."
    ),
    paper="Figure 13",
    compute=compute,
    draw=draw,
)
