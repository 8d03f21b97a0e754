"""Values laid over a plane: class-by-operator tables and embeddings of latent points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.patches import Rectangle

from transop.colours import COLOURS
from transop.plotting.blocks import Block, draw_block
from transop.plotting.style import INK, MUTED, SCALE_MAP, look, new_figure, split_columns

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


def outline_cell(axes: Axes, row: int, column: int) -> None:
    """Draw a frame around one cell of a heat map."""
    frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, clip_on=False)
    frame.set(edgecolor=COLOURS[1], linewidth=2.0, zorder=5)  # above the white grid
    axes.add_patch(frame)


def scale_map(
    values: Float[np.ndarray, "classes operators"],
    high: Sequence[Block],
    low: Sequence[Block],
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
) -> Figure:
    """Draw the class-by-operator table with strips of its highest and lowest cells beside it.

    Args:
        values: average scale per class and operator.
        high: strips of cells with a high scale, shown first.
        low: strips of cells with a low scale.
        row_labels: names of the classes.
        column_labels: names of the operators.
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


def embedding(
    points: Float[np.ndarray, "n 2"],
    images: Float[np.ndarray, "n channels height width"],
    scales: Float[np.ndarray, "n chosen"],
    names: Sequence[str],
    labels: Int[np.ndarray, " n"] | None = None,
) -> Figure:
    """Draw points of a plane with images on them, and again coloured by each scale.

    Args:
        points: where each latent point lies.
        images: what it is.
        scales: one column per panel on the right.
        names: their titles.
        labels: classes, which colour the points under the images.
    """
    columns = 2 if len(names) > 2 else 1
    rows = -(-len(names) // columns)
    with look():
        figure = new_figure(5.4 + 2.5 * columns, 5.4)
        left, right = split_columns(figure, (5.4, 2.5 * columns))
        _scatter_images(left.subplots(), points, images, labels)
        grid = right.subplots(rows, columns, squeeze=False)
        for axes, values, name in zip(grid.flat, scales.T, names, strict=False):
            order = np.argsort(values)  # the large ones on top
            low, high = np.quantile(values, (0.02, 0.98))
            x, y = points[order].T
            axes.scatter(x, y, c=values[order], s=5, cmap=SCALE_MAP, vmin=low, vmax=high)
            axes.set_title(name, fontsize=8.5)
            axes.set_xlabel(
                f"blue {low:.2g}, yellow {high:.2g}", fontsize=7, color=MUTED, labelpad=2
            )
            _bare(axes)
        for axes in grid.flat[len(names) :]:
            axes.set_axis_off()
    return figure


def _scatter_images(
    axes: Axes,
    points: Float[np.ndarray, "n 2"],
    images: Float[np.ndarray, "n channels height width"],
    labels: Int[np.ndarray, " n"] | None,
) -> None:
    colours = [COLOURS[0]] * len(points)
    if labels is not None:
        colours = [COLOURS[label % len(COLOURS)] for label in labels]
    axes.scatter(points[:, 0], points[:, 1], c=colours, s=4, alpha=0.35, linewidths=0)
    for i in spaced_out(points, 0.055):
        tile = images[i].transpose(1, 2, 0)
        # Ink on paper: the background of grey images lets the points show through.
        if tile.shape[-1] == 1:
            ink = np.zeros((*tile.shape[:2], 4), np.float32)
            ink[..., 3] = np.clip(tile[..., 0], 0, 1)
            tile = ink
        picture = OffsetImage(tile, zoom=15 / max(tile.shape[:2]) * 1.25, interpolation="bilinear")
        axes.add_artist(AnnotationBbox(picture, tuple(points[i]), frameon=False, pad=0))
    axes.set_title("Isomap of the latent points", fontsize=10, color=INK)
    _bare(axes)


def spaced_out(points: Float[np.ndarray, "n 2"], share: float) -> list[int]:
    """Choose points so that no two lie closer than a share of the plane's extent."""
    extent = np.ptp(points, axis=0)
    scaled = points / np.where(extent > 0, extent, 1)
    chosen: list[int] = []
    for i in range(len(scaled)):
        if all(np.abs(scaled[i] - scaled[j]).max() >= share for j in chosen):
            chosen.append(i)
    return chosen


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
