"""Interpolation and extrapolation.

Paths between two test images of one class, drawn at random. At t = 0 stands the first image, at t =
1 (outlined) the second; beyond, the path goes on where it was heading. The curves below say how
sure a classifier is that the image still belongs to its class. Transport operators follow curved
paths; the other methods go straight.
"""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.evaluation import PathModel, same_class_pairs
from transop.plotting import FAINT, INK, MUTED, Block, draw_block, image_gap, new_figure
from transop_paper.figures.figure import Numbers, PaperFigure, axes_in_inches
from transop_paper.figures.paper_run import (
    METHOD_COLOURS,
    METHOD_NAMES,
    PaperRun,
    as_array,
)

_TIMES = np.arange(0, 2.76, 0.25)
_IMAGE = 0.46  # inches of an image's width
# Inches around the strips; placed by hand, so that curves line up with images.
_LEFT, _RIGHT, _TITLE, _GAP, _CURVE, _FOOT = 1.5, 0.15, 0.28, 0.12, 0.95, 0.5


def compute(run: PaperRun) -> Numbers:
    """Join test images of one class by every method and classify the images along the paths."""
    first, second, labels = _pairs(run, n=3)
    start, end = run.dataset.batch(first), run.dataset.batch(second)
    frames, probability = [], []
    for method in METHOD_NAMES:
        model: PathModel = run.companion(method)
        z0, z1 = model.encode(start), model.encode(end)
        path = model.latent_path(z0, z1, torch.tensor(_TIMES).to(z0))
        images = model.decode(path.flatten(0, 1))
        chances = run.image_classifier(images).softmax(1).view(*path.shape[:2], -1)
        frames.append(as_array(images).reshape(*path.shape[:2], *images.shape[1:]))
        probability.append(
            np.stack([as_array(c[:, k]) for c, k in zip(chances, labels, strict=True)])
        )
    arrays = {
        "times": _TIMES,
        "frames": np.stack(frames, axis=1),
        "probability": np.stack(probability, axis=1),
        "ends": as_array(end),
    }
    names = [run.class_names[label] for label in labels]
    return Numbers(arrays, {"methods": list(METHOD_NAMES), "labels": names})


def draw(numbers: Numbers) -> Figure:
    """Draw strips of all methods for each pair, and under them the probability of the class.

    The column at time 1 is outlined: up to there a path interpolates, beyond it extrapolates.
    """
    times, frames, methods = numbers["times"], numbers["frames"], numbers.facts["methods"]
    names, colours = ([of[m] for m in methods] for of in (METHOD_NAMES, METHOD_COLOURS))
    boxed = [(row, int(np.argmin(np.abs(times - 1)))) for row in range(len(methods))]
    height, width = frames.shape[-2:]
    strip_width, strip_height = len(times) * _IMAGE, len(methods) * _IMAGE * height / width
    each = _TITLE + strip_height + _GAP + _CURVE + _FOOT
    size = (_LEFT + strip_width + _RIGHT, len(frames) * each)
    figure = new_figure(*size)
    figure.set_layout_engine("none")
    for i, label in enumerate(numbers.facts["labels"]):
        top = size[1] - i * each - _TITLE - strip_height
        images = axes_in_inches(figure, _LEFT, top, strip_width, strip_height)
        draw_block(images, Block(frames[i], row_labels=names, boxed=boxed))
        images.set_title(f"class {label}", loc="left", fontsize=9, pad=4, color=INK)
        for text, colour in zip(images.get_yticklabels(), colours, strict=True):
            text.set_color(colour)
        axes = axes_in_inches(figure, _LEFT, top - _GAP - _CURVE, strip_width, _CURVE)
        for values, colour in zip(numbers["probability"][i], colours, strict=True):
            axes.plot(times, values, color=colour)
        _finish_curve(axes, times, width)
    axes.set_xlabel("path multiplier t")
    return figure


def _finish_curve(axes: Axes, times: Float[np.ndarray, " t"], width: int) -> None:
    """Make each time stand under the middle of its image."""
    column = width + image_gap(width)
    step = float(times[1] - times[0])
    margin = step * (width / 2) / column
    axes.set_xlim(float(times[0]) - margin, float(times[-1]) + margin)
    axes.set_ylim(-0.03, 1.05)
    axes.axvline(1, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
    axes.grid(axis="y", color=FAINT)
    axes.set_ylabel("probability", fontsize=8)
    axes.tick_params(labelsize=7.5)
    axes.set_xticks(times[::2], labels=[f"{t:g}" for t in times[::2]])


def _pairs(run: PaperRun, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw one pair for each of n classes spread over all of them: drawn, not picked."""
    rows = run.held_out_rows
    assert run.dataset.labels is not None
    labels = run.dataset.labels[rows]
    first, second = same_class_pairs(labels, 1, run.generator("path strips"))
    chosen = np.linspace(0, len(first) - 1, min(n + 2, len(first))).astype(int)[1:-1]
    if len(chosen) == 0:
        chosen = np.arange(len(first))
    return rows[first[chosen]], rows[second[chosen]], labels[first[chosen]]


FIGURE = PaperFigure(
    __doc__, "Figure 3", compute, draw, needs=("operators", "classifier"), columns=("labels",)
)
