"""Grids and strips of images, alone or several to a page: what this library draws most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from transop.errors import UserError
from transop.plotting.style import ACCENT, INK, MUTED, look, new_figure, split_rows

_SMALLEST_SIDE = 168  # of a GIF: small images are enlarged by whole factors to about this
_FRAME_MILLISECONDS = 80
_TITLE_INCHES, _LABEL_INCHES, _LETTER_INCHES = 0.25, 0.17, 0.07
_CELL_INCHES = 0.62  # width of an image in a grid that has the page to itself


@dataclass(frozen=True)
class Block:
    """A grid of images with what is written around it."""

    images: Float[np.ndarray, "rows columns channels height width"]  # values in [0, 1]
    title: str = ""  # a line above
    row_labels: Sequence[str] = ()  # at the left
    column_labels: Sequence[str] = ()  # at the foot
    boxed: Collection[tuple[int, int]] = ()  # cells (row, column) to outline
    colour: str = ACCENT  # of the title and the outlines


def image_grid(
    images: Float[np.ndarray, "rows columns channels height width"],
    *,
    title: str = "",
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    boxed: Collection[tuple[int, int]] = (),
) -> Figure:
    """Draw rows of images as a `Block` says, pixels kept crisp, but column labels at the top."""
    rows, columns, _, height, width = images.shape
    longest = max((len(label) for label in row_labels), default=0)
    head = _TITLE_INCHES * (bool(title) + bool(column_labels))
    with look():
        figure = new_figure(
            columns * _CELL_INCHES + longest * _LETTER_INCHES + 0.2,
            rows * _CELL_INCHES * height / width + head + 0.2,
        )
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.1)
        axes = figure.add_subplot()
        draw_block(axes, Block(images, "", row_labels, column_labels, boxed))
        axes.set_title(title)
        axes.set_anchor("E")  # what a tall grid leaves free belongs to the labels
        axes.tick_params(labelsize=8, labeltop=True, labelbottom=False)
    return figure


def contact_sheet(rows: Float[np.ndarray, "n k c h w"]) -> Figure:
    """Draw images, outlined, each before its numbered copies."""
    return image_grid(
        rows,
        column_labels=["image", *(str(number) for number in range(1, rows.shape[1]))],
        boxed=[(row, 0) for row in range(len(rows))],
    )


def image_blocks(
    page: Sequence[Sequence[Block]], *, headings: Sequence[str] = (), cell_inches: float = 0.34
) -> Figure:
    """Lay rows of blocks out on a page, all images ``cell_inches`` wide.

    A heading stands above each row of blocks, in the colour of its first block.
    """
    headings = headings or [""] * len(page)
    widths = [[_width(block, cell_inches) for block in row] for row in page]
    heights = [
        max(_height(block, cell_inches) for block in row) + _TITLE_INCHES * bool(heading)
        for row, heading in zip(page, headings, strict=True)
    ]
    with look():
        total = max(sum(row) + 0.18 * len(row) for row in widths)
        figure = new_figure(total, sum(heights) + 0.12 * len(page))
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.03, h_pad=0.03, hspace=0.0, wspace=0.02)
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


def compose_grid(
    images: Float[np.ndarray, "rows columns channels height width"], *, gap: int
) -> Float[np.ndarray, "canvas_height canvas_width 3"]:
    """Lay images out on one white canvas, ``gap`` pixels apart; values are clipped to [0, 1]."""
    channels = images.shape[2]
    if channels not in (1, 3):
        raise UserError(f"images must have 1 or 3 channels, got {channels}")
    shown = np.clip(images, 0, 1).astype(np.float32)
    padding = ((0, 0), (0, 0), (0, 0), (0, gap), (0, gap))
    tiles = np.pad(shown, padding, constant_values=1).transpose(0, 3, 1, 4, 2)
    rows, height, columns, width, _ = tiles.shape
    canvas = tiles.reshape(rows * height, columns * width, channels)[:-gap, :-gap]
    return np.broadcast_to(canvas, (*canvas.shape[:2], 3))


def draw_block(axes: Axes, block: Block) -> None:
    """Draw a block into existing axes, pixels kept crisp."""
    rows, columns, _, height, width = block.images.shape
    _check_labels("row_labels", block.row_labels, rows)
    _check_labels("column_labels", block.column_labels, columns)
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


def animate(frames: Float[np.ndarray, "time channels height width"]) -> bytes:
    """Turn images with values in [0, 1] into the bytes of an endless GIF, pixels kept crisp.

    The frames are played in reverse too, so that the loop has no jump.
    """
    if len(frames) == 0 or frames.shape[1] not in (1, 3):
        raise UserError(
            f"frames have shape {frames.shape}; pass (time, channels, height, width) with at "
            "least one frame and 1 or 3 channels"
        )
    factor = max(1, round(_SMALLEST_SIDE / min(frames.shape[2:])))
    bytes_ = np.rint(np.clip(frames, 0, 1) * 255).astype(np.uint8)
    large = bytes_.repeat(factor, axis=2).repeat(factor, axis=3)
    pictures = [Image.fromarray(f[0] if len(f) == 1 else f.transpose(1, 2, 0)) for f in large]
    pictures += pictures[-2:0:-1]
    buffer = BytesIO()
    loop = {"append_images": pictures[1:], "duration": _FRAME_MILLISECONDS, "loop": 0}
    pictures[0].save(buffer, format="GIF", save_all=True, **loop)
    return buffer.getvalue()


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


def _check_labels(name: str, labels: Sequence[str], count: int) -> None:
    if labels and len(labels) != count:
        raise UserError(f"{name} has {len(labels)} entries for {count} rows or columns of images")
