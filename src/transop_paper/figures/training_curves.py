"""Training curves: the loss of every phase."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transop.config import PHASES
from transop.plotting import COLOURS, Line, Panel, line_panels
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.material import Material
from transop_paper.figures.numbers import Numbers

# What to draw of each phase: the first of these measures that it wrote.
MEASURES = {
    "autoencoder": (("loss", "reconstruction loss"),),
    "operators": (("objective", "objective per pair"), ("loss", "loss")),
    "fine_tuning": (("joint", "joint objective"), ("mse", "squared error per pixel")),
    "classifier": (("loss", "cross-entropy"),),
    "coefficient_encoder": (("loss", "objective"), ("objective", "objective")),
}


def compute(material: Material) -> Numbers:
    """Read the metrics of the run."""
    return curves_of(material.run.read_metrics())


def curves_of(metrics: list[dict[str, Any]]) -> Numbers:
    """Collect one curve per phase from lines of metrics."""
    arrays, labels = {}, {}
    for phase in PHASES:
        lines = [m for m in metrics if m.get("phase") == phase and m.get("step", -1) >= 0]
        for key, label in MEASURES[phase]:
            points = [(m.get("epoch", m["step"]), m[key]) for m in lines if _is_number(m.get(key))]
            if points:
                arrays[phase] = np.array(points, dtype=float)
                labels[phase] = label
                break
    return Numbers(arrays, {"labels": labels})


def draw(numbers: Numbers) -> Figure:
    """Draw one panel per phase."""
    panels = [
        Panel(
            [Line("", curve[:, 0], curve[:, 1], colour=COLOURS[0])],
            title=phase.replace("_", " ").capitalize(),
            x_label="epoch",
            y_label=numbers.facts["labels"][phase],
            log=bool(curve[:, 1].min() > 0 and curve[:, 1].max() > 10 * curve[:, 1].min()),
        )
        for phase, curve in numbers.arrays.items()
    ]
    return line_panels(panels, columns=3, panel_inches=(3.3, 2.4))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


FIGURE = PaperFigure(
    title="Training curves",
    caption=(
        "What each phase minimised, over its epochs. A phase is done when its curve is flat; a "
        "curve that is still falling at the end says that more epochs would help."
    ),
    paper="ours",
    compute=compute,
    draw=draw,
    needs=(),
)
