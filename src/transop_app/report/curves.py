"""The training curves of a run: what each phase minimised, over its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from transop.config import PHASES
from transop.plotting import COLOURS, Line, Panel, line_panels
from transop_app.report.saved import About

CURVES_ABOUT = About(
    "Training curves",
    "What each phase minimised, over its epochs. A phase is done when its curve is flat; a "
    "curve that is still falling at the end says that more epochs would help.",
)

# What to draw of each phase: the first of these measures that it wrote.
_MEASURES = {
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
        for key, label in _MEASURES[phase]:
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
