"""Attributes along operator paths: which operator gives a face a beard, a hat, blond hair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from transop.errors import UserError
from transop.operators import transport_path
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.operator_paths import natural_unit
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import AttributePath, attribute_paths

LOW, HIGH = 0.2, 0.8  # an attribute is gained where its probability rises from below to above
_REACH = 2.0  # how far paths are followed, in natural units of each operator
_FRAMES, _CURVE = 9, 41


@dataclass(frozen=True)
class Walks:
    """Paths of one operator from many starts.

    Attributes:
        probability: of every attribute along the way; where the path has left the data, that of
            the start.
        inside: where the latent point is not longer than any of the data, from the start on.
    """

    probability: Float[Tensor, "n t k"]
    inside: Bool[Tensor, "n t"]


def compute(run: PaperRun) -> Numbers:
    """Follow every operator from held-out images and find the best one for every attribute."""
    model = run.model
    if model.attribute_names is None:
        raise UserError(
            "this run's classifier tells no attributes; train the phase 'classifier' with "
            "classifier.network = 'attributes'"
        )
    rows = run.held_out_rows[: run.sized(40, 120)]
    points = run.latents(rows)
    chosen = run.living_operators
    amounts = _REACH * torch.linspace(-1, 1, run.sized(13, 25))
    bar = run.progress(chosen, "operators", len(chosen))
    walks = [walk(run, m, points, amounts) for m in bar]
    start = model.attributes_at(points)
    share, peak = gains(torch.stack([w.probability for w in walks]), start)
    best = (share + 1e-3 * peak).argmax(0)  # the mean decides between equal shares
    shown = [
        _shown_path(run, chosen[int(m)], points, _cleanest(walks[int(m)], start, k))
        for k, m in enumerate(best)
    ]
    arrays = {
        "share": as_array(share),
        "peak": as_array(peak),
        "n_starts": as_array((start < LOW).sum(0)),
        **{key: np.stack([path[key] for path in shown]) for key in shown[0]},
    }
    names = list(model.attribute_names)
    reached = share.amax(0)
    facts = {
        "attributes": names,
        "operators": chosen,
        "best": [chosen[int(m)] for m in best],
        "best_share": [round(float(value), 4) for value in reached],
        "moved": [name for name, value in zip(names, reached, strict=True) if value > 0],
        "n_moved": int((reached > 0).sum()),
        "n_moved_from_half_the_starts": int((reached >= 0.5).sum()),
        "rows": rows.tolist(),
    }
    return Numbers(arrays, facts)


def walk(
    run: PaperRun,
    operator: int,
    points: Float[Tensor, "n d"],
    amounts: Float[Tensor, " t"],
) -> Walks:
    """Ask for the attributes along one operator's paths, as far as they stay among the data.

    Args:
        run: the run.
        operator: which.
        points: starts.
        amounts: how far, in natural units, ascending, with 0 in the middle.
    """
    unit = natural_unit(run.model.operators.operators.detach()[operator], points)
    path = _path(run, operator, points, amounts, unit)
    middle = len(amounts) // 2
    short = path.norm(dim=2) <= points.norm(dim=1).max()
    left = short[:, : middle + 1].flip(1).cummin(1).values.flip(1)
    right = short[:, middle:].cummin(1).values
    inside = torch.cat([left[:, :-1], right], dim=1)
    chances = torch.cat([run.model.attributes_at(part) for part in torch.split(path, 20)])
    start = chances[:, middle : middle + 1]
    return Walks(torch.where(inside[..., None], chances, start), inside)


def gains(
    probability: Float[Tensor, "m n t k"], start: Float[Tensor, "n k"]
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "m k"]]:
    """Say how often and how far operators raise attributes from below 0.2.

    Returns:
        For every operator and attribute, among starts below 0.2: the share of paths that pass
        0.8, and the mean of the highest probability. Zero where no start is below.
    """
    eligible = start < LOW
    highest = probability.amax(2)
    count = eligible.sum(0).clamp_min(1)
    share = ((highest > HIGH) & eligible).sum(1) / count
    return share, (highest * eligible).sum(1) / count


def _cleanest(walks: Walks, start: Float[Tensor, "n k"], attribute: int) -> int:
    """Choose the start whose rise changes the other attributes least; any, if none rises."""
    highest, where = walks.probability[:, :, attribute].max(1)
    at_peak = walks.probability[torch.arange(len(where)), where]
    others = (at_peak - start).abs().sum(1) - (at_peak - start)[:, attribute].abs()
    gained = (highest > HIGH) & (start[:, attribute] < LOW)
    if not bool(gained.any()):
        return int((highest - start[:, attribute]).argmax())
    return int(torch.where(gained, others, torch.inf).argmin())


def _shown_path(
    run: PaperRun, operator: int, points: Float[Tensor, "n d"], row: int
) -> dict[str, np.ndarray]:
    """Follow one path finely, over the stretch on which it stays among the data."""
    start = points[row : row + 1]
    unit = natural_unit(run.model.operators.operators.detach()[operator], points)
    amounts = _REACH * torch.linspace(-1, 1, 101)
    path = _path(run, operator, start, amounts, unit)[0]
    inside = (path.norm(dim=1) <= points.norm(dim=1).max()).tolist()
    first = last = len(amounts) // 2
    while first > 0 and inside[first - 1]:
        first -= 1
    while last + 1 < len(amounts) and inside[last + 1]:
        last += 1
    low, high = float(amounts[first]), float(amounts[last])
    seen = _frame_amounts(low, high)
    curve = torch.linspace(float(seen[0]), float(seen[-1]), _CURVE)
    fine, coarse = (_path(run, operator, start, t, unit)[0] for t in (curve, seen))
    return {
        "curve_amounts": as_array(curve),
        "curves": as_array(run.model.attributes_at(fine)),
        "frame_amounts": as_array(seen),
        "frames": as_array(run.model.decode(coarse)),
        "starts": np.array(row),
    }


def _frame_amounts(low: float, high: float) -> Float[Tensor, " f"]:
    """Space the frames evenly within a stretch around 0, one of them at the start itself."""
    n_left = round((_FRAMES - 1) * -low / (high - low)) if high > low else 0
    n_right = _FRAMES - 1 - n_left
    sides = [length / n for length, n in ((-low, n_left), (high, n_right)) if n]
    step = max(min(sides), 1e-3)
    return step * torch.arange(-n_left, n_right + 1).float()


def _path(
    run: PaperRun,
    operator: int,
    points: Float[Tensor, "n d"],
    amounts: Float[Tensor, " t"],
    unit: float,
) -> Float[Tensor, "n t d"]:
    generator = run.model.operators.operators.detach()[operator]
    coefficients = points.new_full((len(points), 1), unit)
    return transport_path(generator[None], coefficients, points, amounts.to(points))


def draw(numbers: Numbers) -> Figure:
    """Draw one path per attribute: images above, probabilities below."""
    facts = numbers.facts
    names = [name.replace("_", " ") for name in facts["attributes"]]
    paths = []
    for k, name in enumerate(names):
        title = f"{name}: operator {facts['best'][k]}, {facts['best_share'][k]:.0%} of starts"
        curves = numbers["curves"][k]
        others = np.ptp(curves, axis=0)
        others[k] = -1
        paths.append(
            AttributePath(
                title=title,
                frames=numbers["frames"][k],
                frame_amounts=numbers["frame_amounts"][k],
                amounts=numbers["curve_amounts"][k],
                curves={name: curves[:, k]}
                | {names[j]: curves[:, j] for j in np.argsort(-others)[:2] if j != k},
            )
        )
    return attribute_paths(paths, marks=(LOW, HIGH))


FIGURE = PaperFigure(
    title="Attributes along operators",
    caption=(
        "For every attribute the operator that most often raises its probability from below 0.2 to "
        "above 0.8, found automatically. Above: images along its path from one held-out image, "
        "which is outlined. Below: the probability of the attribute (thick) and of the two other "
        "attributes that change most (thin). The title says from how many of the starts without "
        "the attribute the same operator passes 0.8; the one shown changes the others least."
    ),
    paper="Figure 2",
    compute=compute,
    draw=draw,
    needs=("operators", "classifier"),
    columns=("attributes",),
)
