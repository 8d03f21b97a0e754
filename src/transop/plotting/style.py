"""The look all figures share, and how they reach the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from transop.artifacts import write_atomically

# Told apart by readers with colour-blindness (Okabe and Ito's set, strongest contrast first).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK = "#222222"

LOOK: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),  # type: ignore[attr-defined]
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text: searchable, and smaller files
    "svg.hashsalt": "transop",  # the same figure gives the same file
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw with the shared look inside the block, leaving the user's own settings alone."""
    with mpl.rc_context(LOOK):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure of a size in inches, outside of pyplot, so nothing keeps it alive."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, atomically.

    Args:
        figure: what to write.
        stem: the path without suffix, e.g. ``runs/demo/figures/operators``.

    Returns:
        The files written.
    """
    written = []
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        buffer = BytesIO()
        with look():
            figure.savefig(buffer, format=suffix[1:], metadata=metadata)
        path = stem.with_name(stem.name + suffix)
        write_atomically(path, buffer.getvalue())
        written.append(path)
    return written
