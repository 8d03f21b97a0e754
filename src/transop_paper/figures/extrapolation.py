"""Accuracy along paths.

Left: how often an image on the path is still classified as the class of its end points. t from 0 to
1 interpolates, beyond 1 extrapolates. A shorter path keeps its class longer, so the paths of every
method end at the same mean distance from the second image. The dashed control is a straight line to
the very point our path reaches. What is left above it is owed to curvature. Right: our lead over
each rival on the same pairs, with 95 % intervals.
"""

import copy

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.evaluation import PathModel, same_class_pairs
from transop.plotting import Line, Panel, line_panels
from transop_paper.extrapolation import lead_over, measure_extrapolation
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import (
    METHOD_COLOURS,
    METHOD_NAMES,
    OUR_METHOD,
    PaperRun,
    as_array,
)

_TIMES = np.arange(0, 3.01, 0.25)
CONTROL = "straight line to our end point"
RESIDUAL = 0.12  # every path ends where it misses z1 by this share of |z1|, on average
SPARSITY_WEIGHT = 0.01  # of our paths: a small one makes them end before z1 and not beside it


def compute(run: PaperRun) -> Numbers:
    """Score same-class test pairs of every method alike, against the true class."""
    rows, labels = run.held_out_rows, run.dataset.labels
    assert labels is not None
    per_class = run.sized(25, 400)
    first, second = same_class_pairs(labels[rows], per_class, run.generator("extrapolation"))
    starts, ends = run.dataset.batch(rows[first]), run.dataset.batch(rows[second])
    truth = torch.from_numpy(labels[rows[first]])
    correct, residual, covered = {}, {}, {}
    end = RESIDUAL
    for method in METHOD_NAMES:  # ours is the first
        result = measure_extrapolation(
            _path_model(run, method),
            run.image_classifier,
            starts,
            ends,
            truth,
            times=_TIMES.tolist(),
            residual=end,
            progress=run.progress,
        )
        correct[method] = result.correct
        residual[method] = float(result.residual.mean())
        covered[method] = float(result.share_covered.mean())
        if method == OUR_METHOD:
            correct["control"] = result.control_correct
            end = max(end, residual[method])  # where ours come no closer, the others stop there too
    ours = correct.pop(OUR_METHOD)
    others = {name: lead_over(ours, theirs) for name, theirs in correct.items()}
    series = {OUR_METHOD: ours, **correct}
    accuracy = np.stack([as_array(c.mean(0)) for c in series.values()])
    return Numbers(
        {
            "times": _TIMES,
            "accuracy": accuracy,
            "half_width": 1.96 * np.sqrt(accuracy * (1 - accuracy) / len(first)),
            "lead": np.stack([as_array(lead) for lead, _ in others.values()]),
            "lead_half_width": np.stack([as_array(width) for _, width in others.values()]),
        },
        {
            "series": list(series),
            "lead_over": list(others),
            "n_pairs": len(first),
            "residual": residual,
            "covered": covered,
            "accuracy_on_starts": float(
                (run.image_classifier(starts).argmax(1).cpu() == truth).float().mean()
            ),
        },
    )


def _path_model(run: PaperRun, method: str) -> PathModel:
    """Give the model that draws a method's paths."""
    if method != OUR_METHOD:
        rival: PathModel = run.companion(method)
        return rival
    model = copy.copy(run.model)  # shares the weights, not the sparsity weight
    model.sparsity_weight = SPARSITY_WEIGHT
    return model


def draw(numbers: Numbers) -> Figure:
    """Draw accuracy over the path multiplier, and our lead over each rival."""
    names = {**METHOD_NAMES, "control": CONTROL}
    colours = {**METHOD_COLOURS, "control": METHOD_COLOURS[OUR_METHOD]}
    times, facts = numbers["times"], numbers.facts

    def lines(keys: list[str], values: np.ndarray, widths: np.ndarray) -> list[Line]:
        return [
            Line(
                names[key],
                times,
                100 * value,
                100 * width,
                colours[key],
                style="--" if key == "control" else "-",
                width=2.4 if key == OUR_METHOD else 1.6,
            )
            for key, value, width in zip(keys, values, widths, strict=True)
        ]

    accuracy = Panel(
        lines(facts["series"], numbers["accuracy"], numbers["half_width"]),
        title="Accuracy along paths",
        x_label="path multiplier t",
        y_label="classified as the true class, %",
        marks=(1.0,),
        note=f"{facts['n_pairs']:,} pairs, 95 % intervals",
    )
    lead = Panel(
        lines(facts["lead_over"], numbers["lead"], numbers["lead_half_width"]),
        title="Our lead over each, pair by pair",
        x_label="path multiplier t",
        y_label="percentage points",
        marks=(1.0,),
        zero=True,
        legend=False,
        note=f"all paths end {facts['residual'][OUR_METHOD]:.2f} |z₁| from the second image; "
        f"ours cover {facts['covered'][OUR_METHOD]:.0%} of the distance",
    )
    return line_panels([accuracy, lead], panel_inches=(4.6, 3.6))


FIGURE = PaperFigure(
    __doc__, "Figure 4", compute, draw, needs=("operators", "classifier"), columns=("labels",)
)
