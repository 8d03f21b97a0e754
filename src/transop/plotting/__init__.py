"""Figures: arrays in, matplotlib ``Figure`` out; nothing here computes or touches a model."""

from transop.extras import require

require("report", "drawing pictures")  # before the files below import matplotlib

from transop.colours import COLOURS
from transop.plotting.curves import Line, Panel, draw_panel, kept_curves, line_panels
from transop.plotting.images import (
    Block,
    animate,
    compose_grid,
    contact_sheet,
    draw_block,
    image_blocks,
    image_gap,
    image_grid,
)
from transop.plotting.style import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    look,
    new_figure,
    render_figure,
    split_rows,
)

__all__ = [
    "ACCENT",
    "COLOURS",
    "FAINT",
    "INK",
    "MUTED",
    "Block",
    "Line",
    "Panel",
    "animate",
    "compose_grid",
    "contact_sheet",
    "draw_block",
    "draw_panel",
    "image_blocks",
    "image_gap",
    "image_grid",
    "kept_curves",
    "line_panels",
    "look",
    "new_figure",
    "render_figure",
    "split_rows",
]
