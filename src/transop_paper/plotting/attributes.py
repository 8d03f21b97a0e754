"""Paths with the attributes along them: images above, probabilities below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transop.plotting import ACCENT, COLOURS, MUTED, compose_grid, look, spread_apart

_FRAME, _GAP = 0.54, 0.02  # inches of an image and between two
_CURVE_HEIGHT, _TITLE, _FOOT = 0.85, 0.28, 0.34
_LEFT, _NAMES = 0.38, 1.3  # inches for the ticks at the left and the names at the right


@dataclass(frozen=True)
class AttributePath:
    """One path and the probabilities along it.

    Attributes:
        title: above the images.
        frames: images at ``frame_amounts``.
        frame_amounts: evenly spaced; 0 is the start.
        amounts: where the curves are known.
        curves: probabilities by name; the first is the one the path is about.
    """

    title: str
    frames: Float[np.ndarray, "f c h w"]
    frame_amounts: Float[np.ndarray, " f"]
    amounts: Float[np.ndarray, " t"]
    curves: Mapping[str, Float[np.ndarray, " t"]]


def attribute_paths(
    paths: Sequence[AttributePath], *, columns: int = 2, marks: Sequence[float] = ()
) -> Figure:
    """Draw paths with their attributes, row by row.

    Args:
        paths: what to draw.
        columns: paths per row.
        marks: probabilities at which a thin line is drawn.
    """
    columns = min(columns, len(paths))
    rows = -(-len(paths) // columns)
    strip = max(len(path.frames) for path in paths) * (_FRAME + _GAP)
    cell = (_LEFT + strip + _NAMES, _TITLE + _FRAME + _CURVE_HEIGHT + _FOOT)
    width, height = columns * cell[0], rows * cell[1]
    with look():
        figure = Figure(figsize=(width, height), facecolor="white")
        for i, path in enumerate(paths):
            left = (i % columns) * cell[0] + _LEFT
            top = height - (i // columns) * cell[1] - _TITLE
            places = ((top - _FRAME, _FRAME), (top - _FRAME - 0.06 - _CURVE_HEIGHT, _CURVE_HEIGHT))
            images, curves = (
                figure.add_axes((left / width, low / height, strip / width, size / height))
                for low, size in places
            )
            _draw_frames(images, path)
            _draw_curves(curves, path, marks)
    return figure


def _draw_frames(axes: Axes, path: AttributePath) -> None:
    """Lay the images out so that each stands above its place on the axis below."""
    low, high = _span(path)
    height = path.frames.shape[2]
    canvas = compose_grid(path.frames[None], gap=max(1, height // 28))
    axes.imshow(canvas, extent=(low, high, 0, 1), aspect="auto", interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(path.title, fontsize=8.5, pad=3)
    step = (high - low) / len(path.frames)
    start = int(np.abs(path.frame_amounts).argmin())
    outline = Rectangle((low + start * step, 0), step, 1, fill=False, clip_on=False)
    outline.set(edgecolor=ACCENT, linewidth=1.6)
    axes.add_patch(outline)


def _draw_curves(axes: Axes, path: AttributePath, marks: Sequence[float]) -> None:
    axes.set_xlim(*_span(path))
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks((0, *marks, 1))
    axes.tick_params(labelsize=6.5, length=2, pad=2)
    for mark in marks:
        axes.axhline(mark, color=MUTED, linewidth=0.6, linestyle=(0, (2, 3)), zorder=0)
    axes.axvline(0, color=ACCENT, linewidth=0.8, zorder=0)
    colours = (COLOURS[0], COLOURS[2], COLOURS[3])
    ends = spread_apart(np.array([curve[-1] for curve in path.curves.values()]), 0.16)
    for i, (name, curve) in enumerate(path.curves.items()):
        colour = colours[i % len(colours)]
        axes.plot(path.amounts, curve, color=colour, linewidth=2.0 if i == 0 else 0.9)
        axes.annotate(
            name,
            (1.0, ends[i]),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            color=colour,
            fontsize=6.8,
            va="center",
            annotation_clip=False,
        )


def _span(path: AttributePath) -> tuple[float, float]:
    """Widen the range of amounts by half a frame at either end."""
    half = float(path.frame_amounts[1] - path.frame_amounts[0]) / 2
    return float(path.frame_amounts[0]) - half, float(path.frame_amounts[-1]) + half
