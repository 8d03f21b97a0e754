"""Figures: arrays in, matplotlib ``Figure`` out; nothing here computes or touches a model."""

from transop.plotting.animations import animate
from transop.plotting.grids import image_grid
from transop.plotting.style import COLOURS, look, new_figure, render_figure, save_figure

__all__ = [
    "COLOURS",
    "animate",
    "image_grid",
    "look",
    "new_figure",
    "render_figure",
    "save_figure",
]
