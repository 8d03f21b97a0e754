"""Eigenvalues: how stable operators are, by the pairs they were learned from."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.model import ManifoldAutoencoder
from transop.operators import eigenvalues, largest_real_part
from transop.plotting import COLOURS
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import eigenvalue_figure

_LARGE = 0.5  # |real part| of an operator whose paths grow by two thirds per unit coefficient


def compute(run: PaperRun) -> Numbers:
    """Compare the spectra of our operators with those learned from latent neighbours."""
    own = run.settings.pairs.strategy
    models: dict[str, ManifoldAutoencoder] = {
        own: run.model,
        "latent": run.companion("latent-pairs"),
    }
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, object] = {"strategies": list(models), "large_means": _LARGE}
    for name, model in models.items():
        operators = model.operators.operators.detach()
        values = eigenvalues(operators)
        real = largest_real_part(operators)
        arrays[f"{name}.eigenvalues"] = as_array(torch.view_as_real(values))
        arrays[f"{name}.largest"] = np.sort(as_array(real))[::-1].copy()
        arrays[f"{name}.living"] = as_array(model.operators.living())
        facts[f"{name}.n_large"] = int((real > _LARGE).sum())
        facts[f"{name}.median"] = float(real[model.operators.living()].median())
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw sorted largest real parts, and all eigenvalues in the complex plane."""
    strategies = numbers.facts["strategies"]
    return eigenvalue_figure(
        [numbers[f"{name}.largest"] for name in strategies],
        [numbers[f"{name}.eigenvalues"].reshape(-1, 2) for name in strategies],
        names=[f"{name} pairs" for name in strategies],
        colours=(COLOURS[0], COLOURS[1]),
    )


FIGURE = PaperFigure(
    title="Stability of operators by pair strategy",
    caption=(
        "Left: for each operator, the largest |real part| of its eigenvalues, sorted; zero means "
        "paths that turn for ever, large values mean paths that run away. Right: all eigenvalues "
        "in the complex plane. Operators learned from perceptual pairs should lie closer to the "
        "imaginary axis."
    ),
    paper="Figure 12",
    compute=compute,
    draw=draw,
)
