"""Curves of a run: what each phase minimised, and how often random moves keep identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from transop.colours import COLOURS
from transop.config import PHASES
from transop.plotting.curves import Line, Panel, line_panels
from transop.plotting.style import MUTED, About

CURVES_ABOUT = About(
    "Training curves",
    "What each phase minimised, over its epochs. A phase is done when its curve is flat; a "
    "curve that is still falling at the end says that more epochs would help.",
)

# What to draw of each phase: the first of these measures that it wrote.
MEASURES = {
    "autoencoder": (("loss", "reconstruction loss"),),
    "operators": (("objective", "objective per pair"), ("loss", "loss")),
    "fine_tuning": (("joint", "joint objective"), ("mse", "squared error per pixel")),
    "classifier": (("loss", "cross-entropy"),),
    "coefficient_encoder": (("loss", "objective"), ("objective", "objective")),
}


def collect_curves(
    metrics: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Float[np.ndarray, "points 2"]], dict[str, str]]:
    """Give for each phase epochs beside values, from lines of metrics, and what the values are."""
    curves, labels = {}, {}
    for phase in PHASES:
        lines = [m for m in metrics if m.get("phase") == phase and m.get("step", -1) >= 0]
        for key, label in MEASURES[phase]:
            points = [(m.get("epoch", m["step"]), m[key]) for m in lines if _is_number(m.get(key))]
            if points:
                curves[phase] = np.array(points, dtype=float)
                labels[phase] = label
                break
    return curves, labels


def training_curves(
    curves: Mapping[str, Float[np.ndarray, "points 2"]], labels: Mapping[str, str]
) -> Figure:
    """Draw what `collect_curves` found, one panel per phase."""
    panels = [
        Panel(
            [Line("", curve[:, 0], curve[:, 1], colour=COLOURS[0])],
            title=phase.replace("_", " ").capitalize(),
            x_label="epoch",
            y_label=labels[phase],
            log=bool(curve[:, 1].min() > 0 and curve[:, 1].max() > 10 * curve[:, 1].min()),
        )
        for phase, curve in curves.items()
    ]
    return line_panels(panels, columns=3, panel_inches=(3.3, 2.4))


def kept_curves(curves: Sequence[Mapping[str, Any]], identity: str) -> Figure:
    """Draw every source of scales as a curve; the last one, dashed, is the fixed scale.

    The curves are ``KeptCurve.as_dict()``; ``identity`` says whose opinion was kept.
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
