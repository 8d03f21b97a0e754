"""The look all figures share, and the files they become."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure, SubFigure

from transop.colours import COLOURS

INK = "#222222"
MUTED = "#6b6b6b"
FAINT = "#d9d9d9"
ACCENT = COLOURS[1]

LOOK: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),  # type: ignore[attr-defined]
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.bbox": "tight",  # grids keep their aspect and would leave white margins
    "savefig.dpi": 160,
    "savefig.pad_inches": 0.08,
    "svg.fonttype": "none",  # text stays text: searchable, and smaller files
    "svg.hashsalt": "transop",  # the same figure gives the same file
    "text.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
}


def look() -> AbstractContextManager[None]:
    """Draw with the shared look inside the block, leaving the user's own settings alone."""
    return mpl.rc_context(LOOK)


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure of a size in inches, outside of pyplot, so nothing keeps it alive."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def split_rows(figure: Figure | SubFigure, heights: Sequence[float]) -> list[SubFigure]:
    """Split a figure into parts one below the other, with the given ratios of height."""
    parts: Any = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    return list(parts.flat)


def render_figure(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """Turn a figure into the bytes of a file; the same figure gives the same bytes."""
    buffer = BytesIO()
    metadata = {"png": {"Software": None}, "svg": {"Date": None}}[kind]
    with look():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
