"""Several blocks of images on one page, each a titled grid of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transop.plotting.grids import compose_grid
from transop.plotting.style import ACCENT, INK, MUTED, look, new_figure, split_rows

_SMALL_IMAGE = 32  # pixels
_TITLE_INCHES, _LABEL_INCHES, _LETTER_INCHES = 0.24, 0.17, 0.066


@dataclass(frozen=True)
class Block:
    """A grid of images with what is written around it.

    Attributes:
        images: values in [0, 1], (rows, columns, channels, height, width).
        title: a line above.
        row_labels: one per row, at the left; none draws none.
        column_labels: one per column, at the foot; none draws none.
        boxed: cells ``(row, column)`` to outline.
        colour: of the title and the outlines.
    """

    images: Float[np.ndarray, "rows columns channels height width"]
    title: str = ""
    row_labels: Sequence[str] = ()
    column_labels: Sequence[str] = ()
    boxed: Collection[tuple[int, int]] = ()
    colour: str = ACCENT


def image_blocks(
    page: Sequence[Sequence[Block]],
    *,
    title: str = "",
    headings: Sequence[str] = (),
    cell_inches: float = 0.34,
) -> Figure:
    """Lay rows of blocks out on a page, all images the same size.

    Args:
        page: blocks, row by row; rows may have different lengths.
        title: a line above everything.
        headings: a line above each row of blocks, in the colour of its first block.
        cell_inches: the width of an image on paper.
    """
    headings = headings or [""] * len(page)
    widths = [[_width(block, cell_inches) for block in row] for row in page]
    heights = [
        max(_height(block, cell_inches) for block in row) + _TITLE_INCHES * bool(heading)
        for row, heading in zip(page, headings, strict=True)
    ]
    with look():
        total = max(sum(row) + 0.18 * len(row) for row in widths)
        figure = new_figure(
            max(total, 0.075 * len(title)),
            sum(heights) + 0.12 * len(page) + 0.34 * bool(title),
        )
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.03, h_pad=0.03, hspace=0.0, wspace=0.02)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        strips = split_rows(figure, heights)
        for strip, row, row_widths, heading in zip(strips, page, widths, headings, strict=True):
            if heading:
                style = {"ha": "left", "fontsize": 10, "fontweight": "bold"}
                strip.suptitle(heading, x=0.01, color=row[0].colour, **style)
            ratios = row_widths
            if sum(row_widths) + 0.05 < total - 0.18 * len(row):  # keep short rows to scale
                ratios = [*row_widths, total - 0.18 * len(row) - sum(row_widths)]
            axes = strip.subplots(1, len(ratios), squeeze=False, width_ratios=ratios)[0]
            for block, place in zip(row, axes, strict=False):
                draw_block(place, block)
            for place in axes[len(row) :]:
                place.set_axis_off()
    return figure


def draw_block(axes: Axes, block: Block) -> None:
    """Draw a block into existing axes, pixels kept crisp."""
    rows, columns, _, height, width = block.images.shape
    gap = image_gap(height)
    axes.imshow(compose_grid(block.images, gap=gap), interpolation="nearest")
    axes.spines[:].set_visible(False)
    axes.set_anchor("NW")
    axes.tick_params(length=0, labelsize=7.5, pad=2, colors=INK)
    centres = np.arange(rows) * (height + gap) + (height - 1) / 2
    axes.set_yticks(centres if block.row_labels else [], labels=block.row_labels)
    centres = np.arange(columns) * (width + gap) + (width - 1) / 2
    axes.set_xticks(centres if block.column_labels else [], labels=block.column_labels)
    for label in axes.get_xticklabels():
        label.set_color(MUTED)
    if block.title:
        axes.set_title(block.title, loc="left", fontsize=8.5, pad=3, color=block.colour)
    for row, column in block.boxed:
        corner = (column * (width + gap) - 0.5, row * (height + gap) - 0.5)
        outline = Rectangle(corner, width, height, fill=False, clip_on=False)
        outline.set(edgecolor=block.colour, linewidth=1.6)
        axes.add_patch(outline)


def roomy(inches: float, images: Float[np.ndarray, "... height width"]) -> float:
    """Enlarge a cell that suits small grey images where images have more to show."""
    return inches if images.shape[-1] <= _SMALL_IMAGE else 1.5 * inches


def image_gap(height: int) -> int:
    """Choose how many pixels to leave between images of a height."""
    return max(1, height // 14)


def _width(block: Block, cell: float) -> float:
    longest = max((len(label) for label in block.row_labels), default=0)
    images: float = block.images.shape[1] * cell
    return max(images, 0.055 * len(block.title)) + longest * _LETTER_INCHES


def _height(block: Block, cell: float) -> float:
    rows, _, _, height, width = block.images.shape
    text = _TITLE_INCHES * bool(block.title) + _LABEL_INCHES * bool(block.column_labels)
    total: float = cell * rows * height / width + text
    return total
