"""What each operator does to a digit.

Every operator in use moves held-out images; the decoded images are measured. A cell has the mean
change of a measure, in standard deviations of the measure over the images, for a move as long as
the latent point, with the 95 % interval of the mean over images below it. The operator is called
after the measure it changes most (outlined), if it changes it by more than nineteen of twenty
random operators change any measure; otherwise it has no name. The strips show three typical images;
moves go to the right in the direction in which the outlined measure grows.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transop.errors import UserError
from transop.plotting import INK, Block, draw_block
from transop_app.report.maps import SCALE_MAP
from transop_paper.figures.figure import Numbers, PaperFigure, axes_in_inches, outline_cell
from transop_paper.figures.operator_paths import follow, natural_unit, operator_strips
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.figures.shape_measures import MEASURES, measure_shapes

_REACH = 0.3  # how far moves go to either side, in natural units, where slopes are measured
_STEPS = 5
_SHOWN, _FRAMES, _SHOWN_REACH = 3, 5, 0.5  # images of the strips, their frames and how far
_RANDOM = 20  # operators drawn at random
_ROW, _COLUMN, _NAMES, _HEAD = 0.5, 0.72, 1.75, 0.45  # inches
NO_NAME = "no name"


def compute(run: PaperRun) -> Numbers:
    """Measure what every operator and as many random ones change."""
    if run.dataset.image_shape[0] != 1:
        raise UserError(
            f"data set '{run.dataset.meta.name}' has {run.dataset.image_shape[0]} channels; shapes "
            "can only be measured in grey images, bright on a dark ground"
        )
    rows = run.held_out_rows[: run.sized(20, 150)]
    points, chosen = run.latents(rows), run.living_operators
    matrices = run.model.operators.operators.detach()
    d, n_random = points.shape[1], run.sized(6, _RANDOM)
    drawn = torch.randn(n_random, d, d, generator=run.generator("random operators")).to(points)
    bar = run.progress([*matrices[chosen], *drawn], "operators", len(chosen) + n_random)
    slopes = np.stack([slopes_of(run, matrix, points) for matrix in bar])
    sizes = np.nanstd(measure_shapes(_shapes(run, points)), axis=0)
    ours, random = np.split(slopes / sizes, [len(chosen)])
    effect, half_width = _mean_and_interval(ours)
    by_chance, _ = _mean_and_interval(random)
    limit = float(np.quantile(np.abs(by_chance).max(1), 0.95))
    names = [name_of(row, limit) for row in effect]
    shown, strips = _strips(run, chosen, effect)
    arrays = {
        "effect": effect,
        "half_width": half_width,
        "slope": effect * sizes,
        "agreement": np.nanmean(np.sign(ours) == np.sign(effect)[:, None], axis=1),
        "random": by_chance,
        "sizes": sizes,
        "strips": strips,
    }
    facts: dict[str, Any] = {
        "operators": chosen,
        "measures": list(MEASURES),
        "units": list(MEASURES.values()),
        "names": names,
        "n_named": sum(name != NO_NAME for name in names),
        "limit": round(limit, 4),
        "n_images": len(rows),
        "rows": shown.tolist(),
    }
    return Numbers(arrays, facts)


def _strips(
    run: PaperRun, chosen: list[int], effect: Float[np.ndarray, "m measures"]
) -> tuple[np.ndarray, Float[np.ndarray, "m n t c h w"]]:
    """Move a few typical images, so that the measure changed most grows to the right."""
    rows = run.examples()
    rows = rows[np.linspace(0, len(rows) - 1, min(_SHOWN, len(rows))).round().astype(int)]
    amounts = _SHOWN_REACH * torch.linspace(-1, 1, _FRAMES)
    strips, _ = operator_strips(run, chosen, rows, amounts)
    grows = effect[np.arange(len(effect)), np.abs(effect).argmax(1)] > 0
    return rows, np.where(grows[:, None, None, None, None, None], strips, strips[:, :, ::-1])


def slopes_of(
    run: PaperRun, operator: Float[Tensor, "d d"], points: Float[Tensor, "n d"]
) -> Float[np.ndarray, "n measures"]:
    """Fit how every measure changes along an operator, by image, per natural unit."""
    amounts = _REACH * torch.linspace(-1, 1, _STEPS)
    moved = follow(operator, points, natural_unit(operator, points) * amounts)
    values, steps = measure_shapes(_shapes(run, moved)), as_array(amounts)
    slopes: np.ndarray = np.einsum("ntk,t->nk", values, steps) / (steps**2).sum()
    return slopes


def _shapes(run: PaperRun, points: Float[Tensor, "*n d"]) -> Float[np.ndarray, "*n h w"]:
    return as_array(run.model.decode(points))[..., 0, :, :]


def _mean_and_interval(
    values: Float[np.ndarray, "m n measures"],
) -> tuple[Float[np.ndarray, "m measures"], Float[np.ndarray, "m measures"]]:
    """Average over images; half the width of the 95 % interval of the mean."""
    counted = np.isfinite(values).sum(1)
    return np.nanmean(values, axis=1), 1.96 * np.nanstd(values, axis=1, ddof=1) / np.sqrt(counted)


def name_of(effect: Float[np.ndarray, " measures"], limit: float) -> str:
    """Call an operator after the measure it changes most, if it changes it beyond a limit."""
    top = int(np.abs(effect).argmax())
    return list(MEASURES)[top] if abs(effect[top]) > limit else NO_NAME


def draw(numbers: Numbers) -> Figure:
    """Draw the table, and beside every line what the operator does to three images."""
    facts, strips = numbers.facts, numbers["strips"]
    n_operators, n_images, n_frames = strips.shape[:3]
    table, strip = _COLUMN * len(facts["measures"]), _ROW * n_frames
    size = (_NAMES + table + n_images * (strip + 0.15), n_operators * _ROW + _HEAD)
    figure = Figure(figsize=size, facecolor="white")
    height = n_operators * _ROW
    _draw_table(axes_in_inches(figure, _NAMES, 0, table, height), numbers)
    for k in range(n_images):
        left = _NAMES + table + 0.15 + k * (strip + 0.15)
        axes = axes_in_inches(figure, left, 0, strip, height)
        boxed = [(row, n_frames // 2) for row in range(n_operators)]
        draw_block(axes, Block(strips[:, k], boxed=boxed))
        axes.set_aspect("auto")
    return figure


def _draw_table(axes: Axes, numbers: Numbers) -> None:
    """Colour the cells by the size of the change and write the change with its interval."""
    facts, effect, half_width = numbers.facts, numbers["effect"], numbers["half_width"]
    size = np.abs(effect)
    axes.imshow(size, cmap=SCALE_MAP, aspect="auto", vmin=0)
    named = zip(facts["operators"], facts["names"], strict=True)
    axes.set_yticks(range(len(effect)), labels=[f"operator {m}: {name}" for m, name in named])
    axes.set_xticks(range(len(facts["measures"])), labels=facts["measures"])
    axes.tick_params(length=0, labelsize=8.5, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(effect):
        colour = INK if size[row, column] > 0.6 * size.max() else "white"
        style: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
        axes.text(column, row - 0.12, f"{value:+.2f}", fontsize=8.5, **style)
        axes.text(column, row + 0.24, f"± {half_width[row, column]:.2f}", fontsize=6, **style)
    for row, name in enumerate(facts["names"]):
        if name != NO_NAME:
            outline_cell(axes, row, facts["measures"].index(name))


FIGURE = PaperFigure(__doc__, "no counterpart", compute, draw)
