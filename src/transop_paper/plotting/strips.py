"""Strips of images over time, with curves that line up under them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.plotting import (
    FAINT,
    INK,
    MUTED,
    Block,
    draw_block,
    image_gap,
    look,
    new_figure,
)

# Inches around the strips; placed by hand, so that curves line up with images.
_LEFT, _RIGHT, _TITLE, _GAP, _CURVE, _FOOT = 1.5, 0.15, 0.28, 0.12, 0.95, 0.5


def probability_strips(
    times: Float[np.ndarray, " t"],
    frames: Float[np.ndarray, "examples methods t c h w"],
    probability: Float[np.ndarray, "examples methods t"],
    *,
    names: Sequence[str],
    colours: Sequence[str],
    titles: Sequence[str],
    cell_inches: float = 0.46,
) -> Figure:
    """Draw for every example one strip per method, and below them the probability over time.

    The column at time 1 is outlined: up to there a path interpolates, beyond it extrapolates.

    Args:
        times: positions on the path, evenly spaced.
        frames: images along it.
        probability: of the right class, for each image.
        names: of the methods.
        colours: of the methods.
        titles: of the examples.
        cell_inches: the width of an image on paper.
    """
    n_examples, n_methods, n_times = probability.shape
    end = int(np.argmin(np.abs(times - 1)))
    height, width = frames.shape[-2:]
    strip_width, strip_height = n_times * cell_inches, n_methods * cell_inches * height / width
    each = _TITLE + strip_height + _GAP + _CURVE + _FOOT
    size = (_LEFT + strip_width + _RIGHT, n_examples * each)
    with look():
        figure = new_figure(*size)
        figure.set_layout_engine("none")
        for i in range(n_examples):
            top = size[1] - i * each - _TITLE
            place = (_LEFT, top - strip_height, strip_width, strip_height)
            images = figure.add_axes(_share(place, size))
            boxed = [(row, end) for row in range(n_methods)]
            draw_block(images, Block(frames[i], titles[i], list(names), boxed=boxed))
            images.set_title(titles[i], loc="left", fontsize=9, pad=4, color=INK)
            for label, colour in zip(images.get_yticklabels(), colours, strict=True):
                label.set_color(colour)
            place = (_LEFT, top - strip_height - _GAP - _CURVE, strip_width, _CURVE)
            axes = figure.add_axes(_share(place, size))
            for values, colour in zip(probability[i], colours, strict=True):
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


def _share(
    place: tuple[float, float, float, float], size: tuple[float, float]
) -> tuple[float, float, float, float]:
    """Turn left, bottom, width and height in inches into shares of the figure."""
    left, bottom, width, height = place
    return (left / size[0], bottom / size[1], width / size[0], height / size[1])
