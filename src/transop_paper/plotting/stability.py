"""What eigenvalues say: sorted real parts, the complex plane, latent curves per operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.plotting import COLOURS, FAINT, INK, MUTED, look, new_figure, split_rows


def eigenvalue_figure(
    largest: Sequence[Float[np.ndarray, " m"]],
    values: Sequence[Float[np.ndarray, "n 2"]],
    *,
    names: Sequence[str],
    colours: Sequence[str],
) -> Figure:
    """Compare spectra: the largest real part per operator, and all eigenvalues in the plane.

    Args:
        largest: per kind, the largest |real part| of every operator, descending.
        values: per kind, real and imaginary parts of all eigenvalues.
        names: of the kinds.
        colours: of the kinds.
    """
    markers = ("o", "^", "s", "D")
    with look():
        figure = new_figure(8.2, 3.4)
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
            marker = markers[i % len(markers)]
            place = np.arange(1, len(largest[i]) + 1)
            left.plot(place, largest[i], marker=marker, markersize=5, color=colour, label=name)
            right.plot(
                *values[i].T, marker, color=colour, markersize=3.5, alpha=0.55, markeredgewidth=0
            )
        left.set(xlabel="operator, sorted", ylabel="largest |real part|", ylim=(0, None))
        left.set_title("Distance from marginal stability", fontsize=9)
        left.legend(fontsize=8)
        left.grid(axis="y")
        right.axvline(0, color=MUTED, linewidth=0.8, zorder=0)
        reach = 1.08 * max(np.abs(v).max() for v in values) or 1.0
        right.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        right.set(xlabel="real part", ylabel="imaginary part")
        right.set_title("All eigenvalues", fontsize=9)
    return figure


def curve_matrix(
    coefficients: Float[np.ndarray, " t"],
    paths: Sequence[Float[np.ndarray, "m t d"]],
    names: Sequence[str],
    *,
    limit: float,
    columns: int = 8,
) -> Figure:
    """Draw a small panel per operator with a line per latent dimension, kind below kind.

    Args:
        coefficients: the horizontal axis.
        paths: per kind, latent points along each operator.
        names: of the kinds.
        limit: vertical extent of all panels, so that running away shows.
        columns: panels per row.
    """
    columns = min(columns, max(len(p) for p in paths))
    rows = [-(-len(p) // columns) for p in paths]
    with look():
        figure = new_figure(1.15 * columns + 0.4, sum(1.05 * r + 0.35 for r in rows))
        parts = split_rows(figure, rows)
        for part, kind, name, n_rows in zip(parts, paths, names, rows, strict=True):
            part.suptitle(name, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
            grid = part.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=True)
            for m, axes in enumerate(grid.flat):
                if m >= len(kind):
                    axes.set_axis_off()
                    continue
                _latent_curves(axes, coefficients, kind[m], title=str(m))
                axes.set_ylim(-limit, limit)
    return figure


def _latent_curves(
    axes: Axes, x: Float[np.ndarray, " t"], values: Float[np.ndarray, "t d"], *, title: str = ""
) -> None:
    """Draw every latent dimension along a path as a thin line of its own."""
    palette = [COLOURS[k % len(COLOURS)] for k in range(values.shape[1])]
    for k, colour in enumerate(palette):
        axes.plot(x, values[:, k], color=colour, linewidth=0.9, alpha=0.9)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_title(title, fontsize=8, color=INK)
    axes.tick_params(labelsize=6.5, length=2)
