"""Grids and strips of images, the figure this library draws most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transop.colours import COLOURS
from transop.errors import UserError
from transop.plotting.style import look, new_figure

_LABEL_INCHES, _TITLE_INCHES = 0.07, 0.25


def compose_grid(
    images: Float[np.ndarray, "rows columns channels height width"], *, gap: int
) -> Float[np.ndarray, "canvas_height canvas_width 3"]:
    """Lay images out on one white canvas, ``gap`` pixels apart; values are clipped to [0, 1]."""
    rows, columns, channels, height, width = images.shape
    if channels not in (1, 3):
        raise UserError(f"images must have 1 or 3 channels, got {channels}")
    shown = np.broadcast_to(images, (rows, columns, 3, height, width)) if channels == 1 else images
    canvas = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), np.float32)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + gap), column * (width + gap)
            tile = shown[row, column].transpose(1, 2, 0)
            canvas[top : top + height, left : left + width] = np.clip(tile, 0, 1)
    return canvas


def image_grid(
    images: Float[np.ndarray, "rows columns channels height width"],
    *,
    title: str = "",
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    boxed: Collection[tuple[int, int]] = (),
    cell_inches: float = 0.62,
) -> Figure:
    """Draw rows of images with labels beside them, pixels kept crisp.

    Args:
        images: values in [0, 1], one or three channels.
        title: a line above everything.
        row_labels: one per row, at the left; none draws none.
        column_labels: one per column, at the top; none draws none.
        boxed: cells ``(row, column)`` to outline, e.g. the input or the end point.
        cell_inches: the size of an image on paper.

    Returns:
        The figure, ready for ``save_figure``.
    """
    rows, columns, _, height, width = images.shape
    _check_labels("row_labels", row_labels, rows)
    _check_labels("column_labels", column_labels, columns)
    gap = max(1, height // 14)
    canvas = compose_grid(images, gap=gap)
    longest = max((len(label) for label in row_labels), default=0)
    head = _TITLE_INCHES * (bool(title) + bool(column_labels))
    with look():
        figure = new_figure(
            columns * cell_inches + longest * _LABEL_INCHES + 0.2,
            rows * cell_inches * height / width + head + 0.2,
        )
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.1)
        axes = figure.add_subplot(title=title)
        axes.imshow(canvas, interpolation="nearest")
        axes.set_anchor("E")  # what a tall grid leaves free belongs to the labels
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=8, labeltop=True, labelbottom=False)
        centres = np.arange(rows) * (height + gap) + (height - 1) / 2
        axes.set_yticks(centres if row_labels else [], labels=row_labels)
        centres = np.arange(columns) * (width + gap) + (width - 1) / 2
        axes.set_xticks(centres if column_labels else [], labels=column_labels)
        for row, column in boxed:
            corner = (column * (width + gap) - 0.5, row * (height + gap) - 0.5)
            outline = Rectangle(corner, width, height, fill=False, clip_on=False)
            outline.set(edgecolor=COLOURS[1], linewidth=1.8)
            axes.add_patch(outline)
    return figure


def _check_labels(name: str, labels: Sequence[str], count: int) -> None:
    if labels and len(labels) != count:
        raise UserError(f"{name} has {len(labels)} entries for {count} rows or columns of images")
