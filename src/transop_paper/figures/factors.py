"""Factors by operators.

How far each operator moves each known factor of a drawn face, relative to a random move of the same
length: 1 is no preference, and the factor an operator prefers most is outlined. In brackets: how
much of the factor's variation can be read off the latents at all; factors below 30 % are never
outlined.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

from transop.plotting import heat_map, look, new_figure, outline_cell
from transop_paper.faces.drawing import FACTORS
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.operator_paths import follow, natural_unit
from transop_paper.figures.paper_run import PaperRun, as_array

_STEP = 0.3  # length of a move, relative to the point's own
_RIDGE = 1e-3
_READABLE = 0.3  # a factor explained worse than this cannot be read off the latents
_PERIODIC = frozenset(factor.name for factor in FACTORS if factor.periodic)


class FactorReader:
    """Reads the factors of an image off its latent point, by ridge regression on its products.

    A factor that goes round a circle is read as a point on the circle.

    Attributes:
        names: of the factors.
        columns: which outputs belong to each factor: one, or two on a circle.
    """

    def __init__(
        self,
        latents: Float[Tensor, "n d"],
        factors: Float[np.ndarray, "n f"],
        names: tuple[str, ...],
    ) -> None:
        """Fit the regression on latent points whose factors are known."""
        self.names = names
        self.columns = _columns(names)
        self._regression = make_pipeline(
            StandardScaler(),
            PolynomialFeatures(2),
            Ridge(_RIDGE * len(latents), fit_intercept=False),
        )
        self._regression.fit(_as_numpy(latents), _targets(factors, names).numpy())

    def read(self, latents: Float[Tensor, "n d"]) -> Float[Tensor, "n outputs"]:
        """Estimate the factors of latent points."""
        estimates = self._regression.predict(_as_numpy(latents))
        return torch.from_numpy(estimates).to(latents.device)

    def explained(
        self, latents: Float[Tensor, "n d"], factors: Float[np.ndarray, "n f"]
    ) -> Float[Tensor, " f"]:
        """Give the share of every factor's variance that the estimates explain."""
        truth = _targets(factors, self.names).to(latents.device)
        missed = (self.read(latents) - truth).square().mean(0)
        share = 1 - missed / truth.var(0, correction=0).clamp_min(1e-12)
        return torch.stack([share[own].mean() for own in self.columns])

    def distance(
        self, first: Float[Tensor, "n d"], second: Float[Tensor, "n d"], sizes: Tensor
    ) -> Float[Tensor, " f"]:
        """Average how far apart two rows of points are in every factor, in units of ``sizes``."""
        apart = self.read(first) - self.read(second)
        lengths = torch.stack([apart[:, own].norm(dim=1) for own in self.columns], dim=1)
        return (lengths / sizes).mean(0)


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
    points = run.latents(held_out)
    truth = dataset.factors[held_out]
    spread = _targets(truth, names).std(0).to(points.device)
    sizes = torch.stack([spread[own].norm() for own in reader.columns])
    chosen = run.living_operators
    operators = run.model.operators.operators.detach()
    change = torch.stack([_change(reader, operators[m], points, sizes) for m in chosen])
    random = _random_change(reader, points, sizes, run.generator("random moves"))
    ratio = change / random
    arrays = {
        "change": as_array(change),
        "random": as_array(random),
        "ratio": as_array(ratio),
        "explained": as_array(reader.explained(points, truth)),
    }
    return Numbers(arrays, {"operators": chosen, "factors": list(names), "moves": _summary(arrays)})


def _change(
    reader: FactorReader,
    operator: Float[Tensor, "d d"],
    points: Float[Tensor, "n d"],
    sizes: Float[Tensor, " f"],
) -> Float[Tensor, " f"]:
    """Measure how far an operator moves every factor, from one side of the points to the other."""
    half = _STEP * natural_unit(operator, points) / 2
    ends = follow(operator, points, points.new_tensor([-half, half]))
    return reader.distance(ends[:, 1], ends[:, 0], sizes)


def _random_change(
    reader: FactorReader,
    points: Float[Tensor, "n d"],
    sizes: Float[Tensor, " f"],
    generator: torch.Generator,
) -> Float[Tensor, " f"]:
    """Measure how far straight moves in random directions, equally long, move every factor."""
    found = []
    for _ in range(20):
        direction = torch.randn(points.shape, generator=generator).to(points)
        step = direction / direction.norm(dim=1, keepdim=True) * points.norm(dim=1, keepdim=True)
        found.append(reader.distance(points + _STEP * step / 2, points - _STEP * step / 2, sizes))
    return torch.stack(found).mean(0)


def _summary(arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Name for every operator the factor it moves most, compared with random moves."""
    readable = arrays["explained"] >= _READABLE
    moves = []
    for row in np.where(readable, arrays["ratio"], 0.0):
        top = int(row.argmax())
        share = float(row[top] / max(row.sum(), 1e-12))
        moves.append({"factor": top, "ratio": round(float(row[top]), 3), "share": round(share, 3)})
    return moves


def _columns(names: tuple[str, ...]) -> list[list[int]]:
    columns, n = [], 0
    for name in names:
        width = 2 if name in _PERIODIC else 1
        columns.append(list(range(n, n + width)))
        n += width
    return columns


def _targets(
    factors: Float[np.ndarray, "n f"], names: tuple[str, ...]
) -> Float[Tensor, "n outputs"]:
    """Lay the factors out as regression targets, circles as cosine and sine."""
    outputs = []
    for name, column in zip(
        names, torch.from_numpy(np.asarray(factors, np.float64)).T, strict=True
    ):
        angle = 2 * torch.pi * column
        outputs += [angle.cos(), angle.sin()] if name in _PERIODIC else [column]
    return torch.stack(outputs, dim=1)


def draw(numbers: Numbers) -> Figure:
    """Draw the table with operators ordered by the factor they move most, which is outlined."""
    facts, ratio = numbers.facts, numbers["ratio"]
    tops = [move["factor"] for move in facts["moves"]]
    order = sorted(range(len(tops)), key=lambda m: (tops[m], -facts["moves"][m]["ratio"]))
    labels = [
        f"{name.replace('_', ' ')}  ({share:.0%})"
        for name, share in zip(facts["factors"], numbers["explained"].clip(0), strict=True)
    ]
    with look():
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
