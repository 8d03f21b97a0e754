"""Stability of operators by pair strategy.

Left: for each operator, the largest |real part| of its eigenvalues, sorted; zero means paths that
turn for ever, large values mean paths that run away. Right: all eigenvalues in the complex plane.
Operators learned from perceptual pairs should lie closer to the imaginary axis.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.operators import eigenvalues, largest_real_part
from transop.plotting import COLOURS, MUTED, new_figure
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array

_LARGE = 0.5  # |real part| of an operator whose paths grow by two thirds per unit coefficient


def compute(run: PaperRun) -> Numbers:
    """Compare the spectra of our operators with those learned from latent neighbours."""
    models = run.models_by_pairs()
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
    reach = 0.0
    figure = new_figure(8.2, 3.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    for name, colour, marker in zip(numbers.facts["strategies"], COLOURS, "o^sD", strict=False):
        largest = numbers[f"{name}.largest"]
        place, style = range(1, len(largest) + 1), {"marker": marker, "color": colour}
        left.plot(place, largest, markersize=5, label=f"{name} pairs", **style)
        values = numbers[f"{name}.eigenvalues"].reshape(-1, 2)
        dots = {**style, "linestyle": "", "markersize": 3.5, "markeredgewidth": 0}
        right.plot(*values.T, alpha=0.55, **dots)
        reach = max(reach, 1.08 * float(np.abs(values).max()))
    left.set(xlabel="operator, sorted", ylabel="largest |real part|", ylim=(0, None))
    left.set_title("Distance from marginal stability", fontsize=9)
    left.legend(fontsize=8)
    left.grid(axis="y")
    right.axvline(0, color=MUTED, linewidth=0.8, zorder=0)
    reach = reach or 1.0
    right.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    right.set(xlabel="real part", ylabel="imaginary part")
    right.set_title("All eigenvalues", fontsize=9)
    return figure


FIGURE = PaperFigure(__doc__, "Figure 12", compute, draw)
