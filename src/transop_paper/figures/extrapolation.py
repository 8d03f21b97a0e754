"""Accuracy along paths.

Left: how often an image on the path is still classified as the class of its end points. t from 0 to
1 interpolates, beyond 1 extrapolates. Sparse coefficients let our path stop a little short of the
second image, which alone would help it; the dashed control takes that away: a straight line to the
very point our path reaches. What is left above it is owed to curvature. Right: our lead over each
rival on the same pairs, with 95 % intervals.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.evaluation import lead_over, measure_extrapolation, same_class_pairs
from transop.plotting import Line, Panel, line_panels
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


def compute(run: PaperRun) -> Numbers:
    """Score same-class test pairs of every method alike, against the true class."""
    rows, labels = run.held_out_rows, run.dataset.labels
    assert labels is not None
    per_class = run.sized(25, 400)
    first, second = same_class_pairs(labels[rows], per_class, run.generator("extrapolation"))
    starts, ends = run.dataset.batch(rows[first]), run.dataset.batch(rows[second])
    truth = torch.from_numpy(labels[rows[first]])
    correct, residual, covered = {}, {}, {}
    for method in METHOD_NAMES:
        result = measure_extrapolation(
            run.companion(method),
            run.image_classifier,
            starts,
            ends,
            truth,
            times=_TIMES.tolist(),
            progress=run.progress,
        )
        correct[method] = result.correct
        residual[method] = float(result.residual.mean())
        covered[method] = float(result.share_covered.mean())
        if method == OUR_METHOD:
            correct["control"] = result.control_correct
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
            "way": covered,
            "judge_accuracy_on_starts": float(
                (run.image_classifier(starts).argmax(1).cpu() == truth).float().mean()
            ),
        },
    )


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
        note=f"our paths cover {facts['way'][OUR_METHOD]:.0%} of the distance to z₁ and "
        f"miss it by {facts['residual'][OUR_METHOD]:.3f} |z₁|",
    )
    return line_panels([accuracy, lead], panel_inches=(4.6, 3.6))


FIGURE = PaperFigure(
    __doc__, "Figure 4", compute, draw, needs=("operators", "classifier"), columns=("labels",)
)
