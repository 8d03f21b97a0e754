"""Where each operator may be used.

Left: test images placed by an Isomap embedding of their latent points. Right: the same points,
coloured by the scale the coefficient encoder gives to one operator there; yellow means it may go
far without changing what the image is, blue that it may not. An operator's yellow regions are where
it belongs.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from transop.plotting import COLOURS, INK, MUTED, new_figure
from transop_app.report.maps import SCALE_MAP, split_columns
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array

_NEIGHBOURS = 10
_SHOWN = 4


def compute(run: PaperRun) -> Numbers:
    """Flatten held-out latents with Isomap and read off the encoded scales."""
    rows = run.held_out_rows
    rows = rows[np.linspace(0, len(rows) - 1, min(run.sized(400, 2000), len(rows))).astype(int)]
    latents = run.latents(rows)
    scales = as_array(run.model.scales_at(latents))
    # The living operators whose scale differs most from place to place.
    variation = scales.std(0) / scales.mean(0)
    chosen = sorted(run.living_operators, key=lambda m: -variation[m])[:_SHOWN]
    labels = run.dataset.labels
    arrays = {
        "points": _isomap(as_array(latents)),
        "images": as_array(run.dataset.batch(rows)).astype(np.float32),
        "scales": scales[:, chosen],
        "labels": np.zeros(0, np.int64) if labels is None else labels[rows],
    }
    return Numbers(arrays, {"operators": chosen, "n_points": len(rows)})


def draw(numbers: Numbers) -> Figure:
    """Draw the plane with images, and once per operator in the colours of its scale."""
    points, names = numbers["points"], numbers.facts["operators"]
    columns = 2 if len(names) > 2 else 1
    figure = new_figure(5.4 + 2.5 * columns, 5.4)
    left, right = split_columns(figure, (5.4, 2.5 * columns))
    _scatter_images(left.subplots(), points, numbers["images"], numbers["labels"])
    grid = right.subplots(-(-len(names) // columns), columns, squeeze=False)
    for axes, values, m in zip(grid.flat, numbers["scales"].T, names, strict=False):
        order = np.argsort(values)  # the large ones on top
        low, high = np.quantile(values, (0.02, 0.98))
        x, y = points[order].T
        axes.scatter(x, y, c=values[order], s=5, cmap=SCALE_MAP, vmin=low, vmax=high)
        axes.set_title(f"operator {m}", fontsize=8.5)
        words = f"blue {low:.2g}, yellow {high:.2g}"
        axes.set_xlabel(words, fontsize=7, color=MUTED, labelpad=2)
        _bare(axes)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    return figure


def _scatter_images(
    axes: Axes,
    points: Float[np.ndarray, "n 2"],
    images: Float[np.ndarray, "n channels height width"],
    labels: Int[np.ndarray, " k"],
) -> None:
    colours = [COLOURS[0]] * len(points)
    if len(labels):
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


def _isomap(latents: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    from sklearn.manifold import Isomap

    with warnings.catch_warnings():
        # Classes that lie apart give several components; Isomap joins them and says so.
        warnings.simplefilter("ignore")
        n_neighbours = min(_NEIGHBOURS, len(latents) - 1)
        flat: Any = Isomap(n_neighbors=n_neighbours).fit_transform(latents)
    points: np.ndarray = flat.astype(np.float32)
    # Axes come with arbitrary signs: the farther end of each points up and to the right.
    far = np.take_along_axis(points, np.abs(points).argmax(0)[None], axis=0)
    points *= np.sign(far)
    return points


FIGURE = PaperFigure(
    __doc__, "Figure 5 (a, b)", compute, draw, needs=("operators", "coefficient_encoder")
)
