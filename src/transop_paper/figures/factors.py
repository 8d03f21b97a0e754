"""Factors by operators.

How far each operator moves each known factor of a drawn face, relative to a random move of the same
length: 1 is no preference, and the factor an operator prefers most is outlined. In brackets: how
much of the factor's variation can be read off the latents at all; factors below 30 % are never
outlined.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor
from torch.nn.functional import normalize

from transop.plotting import new_figure
from transop_app.report.maps import heat_map
from transop_paper.faces.drawing import FACTORS
from transop_paper.figures.figure import Numbers, PaperFigure, outline_cell
from transop_paper.figures.operator_paths import follow, natural_unit
from transop_paper.figures.paper_run import PaperRun, as_array

_STEP = 0.3  # length of a move, relative to the point's own
_RIDGE = 1e-3
_READABLE = 0.3  # a factor explained worse than this cannot be read off the latents
_PERIODIC = frozenset(factor.name for factor in FACTORS if factor.periodic)


class FactorReader:
    """Reads the factors of images off their latent points, by ridge regression on products.

    A factor that goes round a circle is read as a point on the circle, by cosine and sine.
    """

    def __init__(
        self, latents: Float[Tensor, "n d"], factors: Float[np.ndarray, "n f"], names: Sequence[str]
    ) -> None:
        self._periodic = [name in _PERIODIC for name in names]
        self._widths = np.array([2 if periodic else 1 for periodic in self._periodic])
        ridge = Ridge(_RIDGE * len(latents), fit_intercept=False)
        self._regression = make_pipeline(StandardScaler(), PolynomialFeatures(2), ridge)
        self._regression.fit(_as_numpy(latents), self.targets(factors))

    def targets(self, factors: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n outputs"]:
        """Lay known factors out as what the regression gives."""
        outputs: list[np.ndarray] = []
        for periodic, column in zip(self._periodic, factors.astype(np.float64).T, strict=True):
            angle = 2 * np.pi * column
            outputs += [np.cos(angle), np.sin(angle)] if periodic else [column]
        return np.stack(outputs, axis=1)

    def by_factor(self, values: Float[np.ndarray, "*n outputs"]) -> Float[np.ndarray, "*n f"]:
        """Add up what belongs to each factor."""
        starts = np.cumsum(self._widths) - self._widths
        summed: np.ndarray = np.add.reduceat(values, starts, axis=-1)
        return summed

    def explained(
        self, latents: Float[Tensor, "n d"], factors: Float[np.ndarray, "n f"]
    ) -> Float[np.ndarray, " f"]:
        """Give the share of every factor's variance that the estimates explain."""
        estimates = self._regression.predict(_as_numpy(latents))
        share = r2_score(self.targets(factors), estimates, multioutput="raw_values")
        means: np.ndarray = self.by_factor(share) / self._widths
        return means

    def distance(
        self, first: Float[Tensor, "n d"], second: Float[Tensor, "n d"], sizes: np.ndarray
    ) -> Float[np.ndarray, " f"]:
        """Average how far apart two rows of points are in every factor, in units of ``sizes``."""
        one, other = (self._regression.predict(_as_numpy(part)) for part in (first, second))
        mean: np.ndarray = (np.sqrt(self.by_factor((one - other) ** 2)) / sizes).mean(0)
        return mean


def _as_numpy(latents: Float[Tensor, "n d"]) -> Float[np.ndarray, "n d"]:
    return as_array(latents).astype(np.float64)


def compute(run: PaperRun) -> Numbers:
    """Move held-out points by every operator and compare with random moves of the same length."""
    dataset = run.dataset
    assert dataset.factors is not None
    names = tuple(dataset.meta.factor_names or map(str, range(dataset.factors.shape[1])))
    rows = dataset.splits["train"][: run.sized(2000, 10_000)]
    reader = FactorReader(run.latents(rows), dataset.factors[rows], names)
    held_out = run.held_out_rows[: run.sized(200, 1000)]
    points, truth = run.latents(held_out), dataset.factors[held_out]
    sizes = np.sqrt(reader.by_factor(reader.targets(truth).var(0, ddof=1)))
    chosen, change = run.living_operators, []
    for operator in run.model.operators.operators.detach()[chosen]:
        half = _STEP * natural_unit(operator, points) / 2
        ends = follow(operator, points, points.new_tensor([-half, half]))
        change.append(reader.distance(ends[:, 1], ends[:, 0], sizes))
    # Straight moves in random directions, equally long.
    straight, generator = [], run.generator("random moves")
    for _ in range(20):
        direction = normalize(torch.randn(points.shape, generator=generator).to(points))
        step = _STEP * direction * points.norm(dim=1, keepdim=True) / 2
        straight.append(reader.distance(points + step, points - step, sizes))
    random = np.mean(straight, axis=0)
    arrays = {
        "change": np.stack(change),
        "random": random,
        "ratio": np.stack(change) / random,
        "explained": reader.explained(points, truth),
    }
    return Numbers(arrays, {"operators": chosen, "factors": list(names), "moves": _summary(arrays)})


def _summary(arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Name for every operator the factor it moves most, compared with random moves."""
    readable = arrays["explained"] >= _READABLE
    moves = []
    for row in np.where(readable, arrays["ratio"], 0.0):
        top = int(row.argmax())
        share = float(row[top] / max(row.sum(), 1e-12))
        moves.append({"factor": top, "ratio": round(float(row[top]), 3), "share": round(share, 3)})
    return moves


def draw(numbers: Numbers) -> Figure:
    """Draw the table with operators ordered by the factor they move most, which is outlined."""
    facts, ratio = numbers.facts, numbers["ratio"]
    tops = [move["factor"] for move in facts["moves"]]
    order = sorted(range(len(tops)), key=lambda m: (tops[m], -facts["moves"][m]["ratio"]))
    labels = [
        f"{name.replace('_', ' ')}  ({share:.0%})"
        for name, share in zip(facts["factors"], numbers["explained"].clip(0), strict=True)
    ]
    width = 2.6 + 0.3 * max(len(order), 8)
    figure = new_figure(width, max(2.2, 0.24 * len(labels) + 0.9))
    axes = figure.subplots()
    heat_map(
        axes,
        ratio[order].T,
        row_labels=labels,
        column_labels=[str(facts["operators"][m]) for m in order],
        x_label="operator",
        colour_label="move, relative to a random one",
    )
    for column, m in enumerate(order):
        outline_cell(axes, tops[m], column)
    axes.set_title("What each operator moves")
    return figure


FIGURE = PaperFigure(__doc__, "no counterpart", compute, draw, columns=("factors",))
