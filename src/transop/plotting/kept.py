"""Kept identity and covered spread against the length of random moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transop.colours import COLOURS
from transop.plotting.curves import Line, Panel, line_panels
from transop.plotting.style import MUTED


def kept_curves(curves: Sequence[Mapping[str, Any]], identity: str) -> Figure:
    """Draw every source of scales as a curve; the last one, dashed, is the fixed scale.

    Args:
        curves: ``KeptCurve.as_dict()`` of each, as `transop.evaluation.measure_kept_curves`
            gives them.
        identity: whose opinion was kept, in words.
    """
    kept, covered = [], []
    for number, curve in enumerate(curves):
        order = np.argsort(curve["length"])
        x, y, width, spread = (
            np.array(curve[key], dtype=float)[order]
            for key in ("length", "kept", "half_width", "coverage")
        )
        last = number == len(curves) - 1
        colour, style = (MUTED, "--") if last else (COLOURS[number % len(COLOURS)], "-")
        label = curve["source"]
        kept.append(Line(label, x, 100 * y, 100 * width, colour=colour, style=style))
        covered.append(Line(label, x, 100 * spread, colour=colour, style=style))
    axis = "mean length of a move, |dz| / |z|"
    panels = [
        Panel(kept, x_label=axis, y_label="% of moves that keep identity"),
        Panel(covered, x_label=axis, y_label="% of the data's spread covered"),
    ]
    return line_panels(panels, title=f"Identity: {identity}")
