"""Tables of values by class and operator, drawn as a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from transop.plotting import Block, draw_block, look, new_figure

SCALE_MAP = "viridis"  # even steps of lightness: reads the same in grey and to the colour-blind
HIGH, LOW = "#c9a400", "#33638d"  # the two ends of the map, dark enough to be read as text


def heat_map(
    axes: Axes,
    values: Float[np.ndarray, "rows columns"],
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    x_label: str = "",
    colour_label: str = "",
) -> None:
    """Draw a table as coloured cells with a colour bar beside it."""
    picture = axes.imshow(values, cmap=SCALE_MAP, aspect="auto")
    axes.set_xticks(range(len(column_labels)), labels=column_labels)
    axes.set_yticks(range(len(row_labels)), labels=row_labels)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(values.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(values.shape[0] + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel(x_label)
    figure: Any = axes.figure
    bar = figure.colorbar(picture, ax=axes, shrink=0.75, pad=0.02, aspect=24)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.set_label(colour_label, fontsize=8)


def split_columns(figure: Figure | SubFigure, widths: Sequence[float]) -> list[SubFigure]:
    """Split a figure into parts beside each other, with the given ratios of width."""
    parts: Any = figure.subfigures(1, len(widths), squeeze=False, width_ratios=widths)
    return list(parts.flat)


def scale_map(
    values: Float[np.ndarray, "classes operators"],
    high: Sequence[Block],
    low: Sequence[Block],
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
) -> Figure:
    """Draw the average scale per class and operator, beside strips of its extreme cells.

    The strips of cells with a high scale come first. Rows are classes, columns operators.
    """
    strips = [*high, *low]
    with look():
        left, right = 1.6 + 0.38 * values.shape[1], 4.4
        figure = new_figure(left + right, max(3.4, 0.36 * len(row_labels) + 1.0))
        table, pictures = split_columns(figure, (left, right))
        axes = table.subplots()
        heat_map(
            axes,
            values,
            row_labels=row_labels,
            column_labels=column_labels,
            x_label="operator",
            colour_label="average scale",
        )
        axes.set_title("How far each class may go along each operator")
        for place, strip in zip(pictures.subplots(len(strips), 1), strips, strict=True):
            draw_block(place, strip)
            place.set_anchor("W")
    return figure
