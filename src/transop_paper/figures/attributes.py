"""Attributes along operators.

For every attribute the operator that most often raises its probability from below 0.2 to above 0.8,
found on validation images. Above: images along its path from a test image, which is outlined.
Below: the probability of the attribute (thick) and of the two others that change most (thin).
The title says from how many of the starts without the attribute the same operator passes 0.8; the
one shown changes the others least.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transop.errors import UserError
from transop.plotting import ACCENT, COLOURS, MUTED, compose_grid
from transop_paper.figures.figure import Numbers, PaperFigure, axes_in_inches, name_ends
from transop_paper.figures.operator_paths import follow, natural_unit
from transop_paper.figures.paper_run import PaperRun, as_array

LOW, HIGH = 0.2, 0.8  # an attribute is gained where its probability rises from below to above
_REACH = 2.0  # how far paths are followed, in natural units of each operator
_FRAMES, _CURVE = 9, 41
_COLUMNS = 2  # paths per row of the page
_IMAGE, _GAP = 0.54, 0.02  # inches of an image and between two
_CURVE_HEIGHT, _TITLE, _FOOT = 0.85, 0.28, 0.34
_LEFT, _NAMES = 0.38, 1.3  # inches for the ticks at the left and the names at the right

Span = tuple[float, float]


def compute(run: PaperRun) -> Numbers:
    """Follow every operator from held-out images and find the best one for every attribute."""
    model = run.model
    if model.attribute_names is None:
        raise UserError(
            "this run's classifier tells no attributes; train the phase 'classifier' with "
            "classifier.network = 'attributes'"
        )
    trial, rows = _starts(run)
    points, chosen = run.latents(trial), run.living_operators
    amounts = _REACH * torch.linspace(-1, 1, run.sized(13, 25))
    bar = run.progress(chosen, "operators", len(chosen))
    tried = torch.stack([along_operator(run, m, points, amounts) for m in bar])
    best = _choose(tried, model.attributes_at(points), chosen)
    points = run.latents(rows)
    start = model.attributes_at(points)
    chances = {m: along_operator(run, m, points, amounts) for m in sorted(set(best))}
    shown = [
        _shown_path(run, m, points, _cleanest(chances[m], start, k)) for k, m in enumerate(best)
    ]
    arrays = {key: np.stack([path[key] for path in shown]) for key in shown[0]}
    arrays["n_starts"] = as_array((start < LOW).sum(0))
    arrays["recognised"], arrays["mistaken"] = _recognised(run)
    facts = {
        "attributes": list(model.attribute_names),
        "operators": chosen,
        "rows": rows.tolist(),
        **_count(best, chances, start),
    }
    return Numbers(arrays, facts)


def _count(
    best: list[int], chances: dict[int, Tensor], start: Float[Tensor, "n k"]
) -> dict[str, Any]:
    """Say from how many starts the chosen operators give their attributes."""
    reached = [float(gains(chances[m][None], start)[0][0, k]) for k, m in enumerate(best)]
    return {
        "best": best,
        "best_share": [round(value, 4) for value in reached],
        "n_moved": sum(value > 0 for value in reached),
        "n_moved_from_a_quarter_of_the_starts": sum(value >= 0.25 for value in reached),
        "n_moved_from_half_the_starts": sum(value >= 0.5 for value in reached),
    }


def _choose(
    tried: Float[Tensor, "m n t k"], start: Float[Tensor, "n k"], operators: list[int]
) -> list[int]:
    """Choose the best operator for every attribute; the mean of peaks decides between equals."""
    share, peak = gains(tried, start)
    return [operators[int(m)] for m in (share + 1e-3 * peak).argmax(0)]


def _starts(run: PaperRun) -> tuple[np.ndarray, np.ndarray]:
    """Give images on which operators are chosen, and others on which they are counted."""
    n_tried, n_counted = run.sized(40, 120), run.sized(40, 240)
    rows, splits = run.held_out_rows, run.dataset.splits
    if run.held_out_split != "validation" and "validation" in splits:
        return splits["validation"][:n_tried], rows[:n_counted]
    half = len(rows) // 2
    return rows[half:][:n_tried], rows[:half][:n_counted]


def _recognised(run: PaperRun) -> tuple[np.ndarray, np.ndarray]:
    """Say of how many images with and without an attribute the reconstruction passes 0.8.

    The first tells how cautious the classifier is, the second how often it is mistaken; NaN
    where there is no such image.
    """
    rows, known = run.held_out_rows, list(run.dataset.meta.attribute_names or ())
    columns = [known.index(name) for name in run.model.attribute_names or ()]
    assert run.dataset.attributes is not None
    present = run.dataset.attributes[rows][:, columns] > 0
    above = as_array(run.model.attributes_at(run.latents(rows)) > HIGH)

    def share(of: Bool[np.ndarray, "n k"]) -> Float[np.ndarray, " k"]:
        count = of.sum(0)
        return np.where(count > 0, (above & of).sum(0) / count.clip(1), np.nan)

    return share(present), share(~present)


def along_operator(
    run: PaperRun, operator: int, points: Float[Tensor, "n d"], amounts: Float[Tensor, " t"]
) -> Float[Tensor, "n t k"]:
    """Give the probability of every attribute along one operator's paths.

    From where a latent point is longer than any of the data on, the probability at the start
    stands instead.

    ``amounts`` are in natural units and ascend, with 0 in the middle.
    """
    generator = run.model.operators.operators.detach()[operator]
    path = follow(generator, points, natural_unit(generator, points) * amounts)
    inside = inside_around_middle(path.norm(dim=2) <= points.norm(dim=1).max())
    chances = torch.cat([run.model.attributes_at(part) for part in torch.split(path, 20)])
    middle = len(amounts) // 2
    return torch.where(inside[..., None], chances, chances[:, middle : middle + 1])


def inside_around_middle(short: Bool[Tensor, "n t"]) -> Bool[Tensor, "n t"]:
    """Keep of each row the stretch around its middle that holds without a gap."""
    middle = short.shape[1] // 2
    left = short[:, : middle + 1].flip(1).cummin(1).values.flip(1)
    return torch.cat([left[:, :-1], short[:, middle:].cummin(1).values], dim=1)


def gains(
    probability: Float[Tensor, "m n t k"], start: Float[Tensor, "n k"]
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "m k"]]:
    """Say how often and how far operators raise attributes from below 0.2.

    For every operator and attribute, among starts below 0.2: the share of paths that pass 0.8,
    and the mean of the highest probability. Zero where no start is below.
    """
    eligible = start < LOW
    highest = probability.amax(2)
    count = eligible.sum(0).clamp_min(1)
    share = ((highest > HIGH) & eligible).sum(1) / count
    return share, (highest * eligible).sum(1) / count


def _cleanest(chances: Float[Tensor, "n t k"], start: Float[Tensor, "n k"], attribute: int) -> int:
    """Choose the start whose rise changes the other attributes least; any, if none rises."""
    highest, where = chances[:, :, attribute].max(1)
    at_peak = chances[torch.arange(len(where)), where]
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
    generator = run.model.operators.operators.detach()[operator]
    unit = natural_unit(generator, points)
    amounts = _REACH * torch.linspace(-1, 1, 101)
    path = follow(generator, start, unit * amounts)[0]
    short = path.norm(dim=1) <= points.norm(dim=1).max()
    short[len(short) // 2] = True  # the start itself, whatever rounding makes of its length
    inside = inside_around_middle(short[None])[0]
    low, high = amounts[inside][[0, -1]].tolist()
    seen = _frame_amounts(low, high)
    curve = torch.linspace(float(seen[0]), float(seen[-1]), _CURVE)
    fine, coarse = (follow(generator, start, unit * t)[0] for t in (curve, seen))
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


def draw(numbers: Numbers) -> Figure:
    """Draw one path per attribute: images above, probabilities below."""
    facts, all_amounts = numbers.facts, numbers["frame_amounts"]
    names = [name.replace("_", " ") for name in facts["attributes"]]
    columns = min(_COLUMNS, len(names))
    strip = all_amounts.shape[1] * (_IMAGE + _GAP)
    cell = (_LEFT + strip + _NAMES, _TITLE + _IMAGE + _CURVE_HEIGHT + _FOOT)
    width, height = columns * cell[0], -(-len(names) // columns) * cell[1]
    figure = Figure(figsize=(width, height), facecolor="white")
    for k, (name, amounts) in enumerate(zip(names, all_amounts, strict=True)):
        left = (k % columns) * cell[0] + _LEFT
        low = height - (k // columns) * cell[1] - _TITLE - _IMAGE
        images = axes_in_inches(figure, left, low, strip, _IMAGE)
        below = low - 0.06 - _CURVE_HEIGHT
        chances = axes_in_inches(figure, left, below, strip, _CURVE_HEIGHT)
        half = float(amounts[1] - amounts[0]) / 2
        span = (float(amounts[0]) - half, float(amounts[-1]) + half)
        title = f"{name}: operator {facts['best'][k]}, {facts['best_share'][k]:.0%} of starts"
        images.set_title(title, fontsize=8.5, pad=3)
        _draw_frames(images, numbers["frames"][k], int(np.abs(amounts).argmin()), span)
        curves = numbers["curves"][k]
        others = np.ptp(curves, axis=0)
        others[k] = -1
        shown = [k, *(j for j in np.argsort(-others)[:2] if j != k)]
        lines = {names[j]: curves[:, j] for j in shown}
        _draw_curves(chances, numbers["curve_amounts"][k], lines, span)
    return figure


def _draw_frames(axes: Axes, frames: Float[np.ndarray, "f c h w"], start: int, span: Span) -> None:
    """Lay the images out so that each stands above its place on the axis below."""
    canvas = compose_grid(frames[None], gap=max(1, frames.shape[2] // 28))
    axes.imshow(canvas, extent=(*span, 0, 1), aspect="auto", interpolation="nearest")
    axes.set_axis_off()
    step = (span[1] - span[0]) / len(frames)
    outline = Rectangle((span[0] + start * step, 0), step, 1, fill=False, clip_on=False)
    outline.set(edgecolor=ACCENT, linewidth=1.6)
    axes.add_patch(outline)


def _draw_curves(
    axes: Axes, amounts: Float[np.ndarray, " t"], curves: dict[str, np.ndarray], span: Span
) -> None:
    """Draw probabilities with their names beside them; the first is what the path is about."""
    axes.set(xlim=span, ylim=(-0.03, 1.03), yticks=(0, LOW, HIGH, 1))
    axes.tick_params(labelsize=6.5, length=2, pad=2)
    for mark in (LOW, HIGH):
        axes.axhline(mark, color=MUTED, linewidth=0.6, linestyle=(0, (2, 3)), zorder=0)
    axes.axvline(0, color=ACCENT, linewidth=0.8, zorder=0)
    colours = (COLOURS[0], COLOURS[2], COLOURS[3])
    for i, curve in enumerate(curves.values()):
        axes.plot(amounts, curve, color=colours[i], linewidth=2.0 if i == 0 else 0.9)
    name_ends(axes, {name: curve[-1] for name, curve in curves.items()}, colours, apart=0.16)


FIGURE = PaperFigure(
    __doc__, "Figure 2", compute, draw, needs=("operators", "classifier"), columns=("attributes",)
)
