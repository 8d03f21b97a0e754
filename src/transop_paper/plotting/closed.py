"""A path that comes back: images once round, latent curves and distance below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from transop.plotting import (
    INK,
    Block,
    Line,
    Panel,
    draw_block,
    draw_panel,
    look,
    new_figure,
    split_rows,
)


def closed_path(
    frames: Float[np.ndarray, "t c h w"],
    coefficients: Float[np.ndarray, " n"],
    curves: Float[np.ndarray, "n k"],
    distance: Float[np.ndarray, " n"],
    *,
    period: float,
    title: str,
    names: Sequence[str],
    colours: Sequence[str],
) -> Figure:
    """Draw a strip of images over one turn, and what the latents do meanwhile.

    Args:
        frames: images from the start to the return.
        coefficients: positions of the curves.
        curves: latent dimensions.
        distance: from the start, relative to its length.
        period: the coefficient of the return.
        title: above the strip.
        names: of the dimensions.
        colours: of the dimensions.
    """
    with look():
        figure = new_figure(8.0, 3.5)
        strip, below = split_rows(figure, (1.0, 2.6))
        outlined = [(0, 0), (0, len(frames) - 1)]
        draw_block(strip.subplots(), Block(frames[None], title=title, boxed=outlined))
        left, right = below.subplots(1, 2)
        lines = [
            Line(name, coefficients, curve, colour=colour, width=1.4)
            for name, curve, colour in zip(names, curves.T, colours, strict=True)
        ]
        draw_panel(
            left,
            Panel(
                lines, "Latent dimensions", "coefficient", "value", labels="legend", marks=[period]
            ),
        )
        draw_panel(
            right,
            Panel(
                [Line("", coefficients, distance, colour=INK)],
                "Distance from the start",
                "coefficient",
                "|z − z₀| / |z₀|",
                marks=[period],
                zero=True,
            ),
        )
    return figure
