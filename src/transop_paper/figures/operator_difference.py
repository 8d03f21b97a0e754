"""Operator difference.

After every step on the operators: how much better the same coefficients now fit the pairs. Values
above zero are steps that helped. If most steps fall below, the learning rate or the decay is too
large.
"""

import numpy as np
from matplotlib.figure import Figure

from transop.plotting import COLOURS, Line, Panel, line_panels
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun

_PHASES = ("operators", "fine_tuning")


def compute(run: PaperRun) -> Numbers:
    """Read the difference, and the share of steps that did harm, from the metrics."""
    arrays, metrics = {}, run.metrics
    for phase in _PHASES:
        lines = [m for m in metrics if m.get("phase") == phase and m.get("step", -1) >= 0]
        for key in ("difference", "negative_differences"):
            points = [(m["step"], m[key]) for m in lines if m.get(key) is not None]
            if points:
                arrays[f"{phase}.{key}"] = np.array(points, dtype=float)
    return Numbers(arrays)


def draw(numbers: Numbers) -> Figure:
    """Draw the difference over the steps of both phases, and the share of harmful steps."""
    panels = []
    for phase in _PHASES:
        title = phase.replace("_", " ").capitalize()
        for key, label, scale, colour in (
            ("difference", "drop of the data term per step", 1.0, COLOURS[0]),
            ("negative_differences", "steps that made it worse, %", 100.0, COLOURS[1]),
        ):
            if (curve := numbers.arrays.get(f"{phase}.{key}")) is not None:
                line = Line("", curve[:, 0], scale * curve[:, 1], colour=colour)
                top = 1.1 * max(5.0, float(line.y.max()))
                panels.append(
                    Panel(
                        [line],
                        title=title,
                        x_label="step",
                        y_label=label,
                        zero=True,
                        limits=(0.0, top) if scale == 100 else None,
                    )
                )
    return line_panels(panels, columns=2, panel_inches=(4.0, 2.5))


FIGURE = PaperFigure(__doc__, "Equation (21)", compute, draw)
