"""Figures: arrays in, matplotlib ``Figure`` out; nothing here computes or touches a model."""

from transop.colours import COLOURS
from transop.plotting.animations import animate
from transop.plotting.bars import magnitude_bars, time_bars
from transop.plotting.blocks import Block, draw_block, image_blocks, roomy
from transop.plotting.curves import Line, Panel, draw_panel, latent_curves, line_panels
from transop.plotting.grids import image_grid
from transop.plotting.kept import kept_curves
from transop.plotting.maps import embedding, heat_map, scale_map
from transop.plotting.style import look, new_figure, render_figure, save_figure

__all__ = [
    "COLOURS",
    "Block",
    "Line",
    "Panel",
    "animate",
    "draw_block",
    "draw_panel",
    "embedding",
    "heat_map",
    "image_blocks",
    "image_grid",
    "kept_curves",
    "latent_curves",
    "line_panels",
    "look",
    "magnitude_bars",
    "new_figure",
    "render_figure",
    "roomy",
    "save_figure",
    "scale_map",
    "time_bars",
]
