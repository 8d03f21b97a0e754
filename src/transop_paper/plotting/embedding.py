"""Latent points in a plane, with the images they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from transop.plotting import COLOURS, INK, MUTED, SCALE_MAP, look, new_figure, split_columns


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
