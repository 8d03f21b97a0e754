"""A nearly closed path.

The operator and start whose path comes back closest to where it began. Above: images once round;
the first and the last should look alike. Below: the latent dimensions that move most, and the
distance from the start. Straight paths can never do this.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transop.plotting import (
    COLOURS,
    INK,
    Block,
    Line,
    Panel,
    draw_block,
    draw_panel,
    new_figure,
    split_rows,
)
from transop_paper.figures.figure import Numbers, PaperFigure, name_ends
from transop_paper.figures.operator_paths import follow
from transop_paper.figures.paper_run import PaperRun, as_array

_LENGTH = 25.0  # how far paths are followed, in units of a move as long as the point
_POINTS = 400
_LEAST_TRIP, _MOST_TRIP = 0.3, 3.0  # how far from its start a path must and may lead, relative
_NEVER = 10.0  # added to the miss of paths that never come back, so that they are chosen last
_CLOSED = 0.5  # a path that ends farther away than half its farthest distance did not return
_SHOWN = 13
_DIMENSIONS = 5


class Return(NamedTuple):
    """Where a path comes back to its start, and how well."""

    miss: float  # distance at the return, relative to the farthest point of the trip
    coefficient: float
    operator: int
    start: int


def compute(run: PaperRun) -> Numbers:
    """Follow every operator from many starts and keep the path that closes best."""
    rows = run.held_out_rows[: run.sized(100, 500)]
    points = run.latents(rows).cpu()
    operators = run.model.operators.operators.detach().cpu()
    found = [_best_return(operators, m, points) for m in run.living_operators]
    best = min(found, key=lambda r: r.miss)
    start = points[best.start : best.start + 1]
    chosen = operators[best.operator]
    images = follow(chosen, start, torch.linspace(0, best.coefficient, _SHOWN))
    fine = torch.linspace(0, 1.5 * best.coefficient, 300)
    curve = follow(chosen, start, fine)[0]
    dimensions = curve.std(0).argsort(descending=True)[:_DIMENSIONS]
    arrays = {
        "frames": as_array(run.model.decode(images[0])),
        "coefficients": as_array(fine),
        "curves": as_array(curve[:, dimensions]),
        "distance": as_array((curve - start).norm(dim=1) / start.norm()),
        "misses": np.array([r.miss for r in found]),
    }
    facts = {
        "operator": best.operator,
        "row": int(rows[best.start]),
        "coefficient": best.coefficient,
        "miss": best.miss,
        "closes": best.miss < _CLOSED,
        "dimensions": dimensions.tolist(),
        "operators": [r.operator for r in found],
    }
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw the images once round, and below the latent curves and the distance beyond it."""
    facts, frames, x = numbers.facts, numbers["frames"], numbers["coefficients"]
    verdict = "comes back" if facts["closes"] else "hardly comes back"
    verdict += f" (to {facts['miss']:.0%} of its farthest distance)"
    lines = [
        Line(f"z{k}", x, curve, colour=COLOURS[i], width=1.4)
        for i, (k, curve) in enumerate(zip(facts["dimensions"], numbers["curves"].T, strict=True))
    ]
    distance = Line("", x, numbers["distance"], colour=INK)
    marks = [facts["coefficient"]]
    figure = new_figure(8.0, 3.5)
    strip, below = split_rows(figure, (1.0, 2.6))
    title = f"Operator {facts['operator']}, {verdict}"
    outlined = [(0, 0), (0, len(frames) - 1)]
    draw_block(strip.subplots(), Block(frames[None], title=title, boxed=outlined))
    left, right = below.subplots(1, 2)
    words = ("Latent dimensions", "coefficient", "value")
    draw_panel(left, Panel(lines, *words, legend=False, marks=marks))
    low, high = left.get_ylim()
    ends = {line.label: float(line.y[-1]) for line in lines}
    name_ends(left, ends, COLOURS, apart=0.07 * (high - low))
    words = ("Distance from the start", "coefficient", "|z − z₀| / |z₀|")
    draw_panel(right, Panel([distance], *words, marks=marks, zero=True))
    return figure


def _best_return(
    operators: Float[Tensor, "m d d"], operator: int, points: Float[Tensor, "n d"]
) -> Return:
    """Find the start from which an operator's path comes back best, and where."""
    moves = (points @ operators[operator].mT).norm(dim=1)
    unit = float((points.norm(dim=1) / moves).median())
    coefficients = torch.linspace(0, _LENGTH * unit, _POINTS)
    # All starts share one flow; following each by itself took 9 GB in 32 dimensions.
    flow = torch.linalg.matrix_exp(coefficients[:, None, None] * operators[operator])
    path = torch.einsum("tij,nj->nti", flow, points)
    distance = (path - points[:, None]).norm(dim=2) / points.norm(dim=1)[:, None]
    distance = distance.nan_to_num(torch.inf)
    away = distance.cummax(1).values[:, 1:-1]
    # A return is a valley: closer than before and after, once the path has been away.
    middle = distance[:, 1:-1]
    valley = (middle <= distance[:, :-2]) & (middle <= distance[:, 2:])
    trip = (away > _LEAST_TRIP) & (away < _MOST_TRIP)
    miss = torch.where(valley & trip, middle / away, _NEVER + middle)
    where = int(miss.argmin())
    start, step = divmod(where, miss.shape[1])
    return Return(float(miss.flatten()[where]), float(coefficients[step + 1]), operator, start)


FIGURE = PaperFigure(__doc__, "Figure 19", compute, draw)
