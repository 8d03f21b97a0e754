"""Figures: arrays in, matplotlib ``Figure`` out; nothing here computes or touches a model."""

from transop.plotting.grids import image_grid
from transop.plotting.style import COLOURS, new_figure, save_figure

__all__ = ["COLOURS", "image_grid", "new_figure", "save_figure"]
