"""Accuracy on changed digits.

A LeNet-5 is trained on few labelled images with one augmentation or another, and tested on images
changed in ways it may never have seen: the fifteen changes of MNIST-C in versions of our own, each
shown above its column, and digits that are turned, resized and sheared by more and more. Cells have
the mean test accuracy in percent; the best of every column is outlined. Colours compare with no
augmentation. Curves have a band of one standard deviation over seeds. The encoder and the guard of
the learned augmentation have seen all training labels.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transop.plotting import COLOURS, INK, MUTED, compose_grid
from transop_paper.figures.figure import Numbers, PaperFigure, axes_in_inches, outline_cell
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.scarce.corruptions import KINDS, SWEEPS
from transop_paper.scarce.experiment import Experiment
from transop_paper.scarce.protocol import Protocol
from transop_paper.scarce.robustness import UNCHANGED, ChangedImages, score_under_changes
from transop_paper.scarce.rows import find_rows

# How an augmentation is called in the picture, by the name of its row in Table 1.
_TITLES = {
    "none": "none",
    "elastic": "elastic",
    "randaugment": "RandAugment",
    "transport-encoder": "learned",
    "transport-guarded": "learned, guarded",
}
_QUICK_ROWS = ("none", "transport-encoder")
# Shorter than Table 1, because thirty networks are trained.
_PROTOCOLS = {
    "full": Protocol(n_steps=3_000, pool_size=10_000),
    "quick": Protocol(n_steps=100, pool_size=200),
}
_STILL = {"rotate": 0.0, "scale": 1.0, "shear": 0.0}  # the strength that changes nothing
_UNITS = {"rotate": "degrees", "scale": "factor", "shear": "shift per height"}
_COLUMN, _ROW, _LEFT, _TITLE, _CURVES, _GAP = 0.56, 0.3, 1.3, 0.32, 1.7, 0.75  # inches


def compute(run: PaperRun) -> Numbers:
    """Train every augmentation on few and on more images, and score it under every change.

    Results are kept in the run folder, by augmentation and seed: an interrupted computation goes
    on where it stopped.
    """
    protocol, folder = _PROTOCOLS[run.scale], run.path / f"robustness-{run.scale}"
    tests = ChangedImages.of(run.dataset, run.sized(60, 1_000), progress=run.progress)
    experiment = Experiment.of(run, protocol, folder, run.dataset)
    names = list(_TITLES) if run.scale == "full" else _QUICK_ROWS
    sizes = (run.sized(5, 10), run.sized(10, 100))
    return measure(experiment, tests, names, sizes, run.sized(1, 3))


def measure(
    experiment: Experiment,
    tests: ChangedImages,
    names: Sequence[str],
    sizes: Sequence[int],
    n_seeds: int,
) -> Numbers:
    """Score named rows of Table 1 under every change, by labelled images of each class."""
    rows, results = find_rows(names, experiment.dataset.meta.name), []
    tasks = list(itertools.product(range(n_seeds), sizes, rows))
    for seed, size, row in experiment.progress(tasks, "augmentations and seeds", len(tasks)):
        protocol = dataclasses.replace(experiment.protocol, n_per_class=size)
        out = experiment.out / f"{size}-per-class"
        smaller = dataclasses.replace(experiment, protocol=protocol, out=out)
        results.append(score_under_changes(smaller, row, seed, tests)["accuracy"])
    changes = list(tests.by_change)
    table = np.array([[result[name] for name in changes] for result in results])
    table = table.reshape(n_seeds, len(sizes), len(rows), len(changes)).transpose(1, 2, 0, 3)
    examples = np.stack([as_array(tests.by_change[name][0]) for name in (UNCHANGED, *KINDS)])
    facts = {
        "tests": changes,
        "rows": list(names),
        "n_per_class": list(sizes),
        "n_seeds": n_seeds,
        "n_tested": len(tests.labels),
        "n_steps": experiment.protocol.n_steps,
        "mean_accuracy": _means(table, names, sizes, changes),
    }
    return Numbers({"accuracy": table, "examples": examples}, facts)


def _means(
    accuracy: Float[np.ndarray, "sizes rows seeds tests"],
    rows: Sequence[str],
    sizes: Sequence[int],
    tests: list[str],
) -> dict[str, dict[str, dict[str, float]]]:
    """Lay the mean accuracies out as a table that a reader of the JSON file understands."""
    kinds = [tests.index(name) for name in KINDS]
    table = {}
    for size, by_row in zip(sizes, accuracy.mean(2), strict=True):
        table[f"{size} per class"] = {
            row: {
                **{test: round(float(value), 2) for test, value in zip(tests, values, strict=True)},
                "mean of the fifteen changes": round(float(values[kinds].mean()), 2),
            }
            for row, values in zip(rows, by_row, strict=True)
        }
    return table


def draw(numbers: Numbers) -> Figure:
    """Draw for both sizes a table of the fifteen changes and three curves."""
    facts, accuracy = numbers.facts, numbers["accuracy"]
    shown = [UNCHANGED, *KINDS]
    places = [facts["tests"].index(name) for name in shown]
    width = _LEFT + _COLUMN * len(shown) + 0.1
    table = _ROW * len(facts["rows"])
    part = _TITLE + table + _GAP + _CURVES + _GAP
    height = len(accuracy) * part + _COLUMN + 0.7
    figure = Figure(figsize=(width, height), facecolor="white")
    top = height - 0.7 - _COLUMN
    strip = axes_in_inches(figure, _LEFT, top, _COLUMN * len(shown), _COLUMN)
    _draw_examples(strip, numbers["examples"], shown)
    for size, values in zip(facts["n_per_class"], accuracy, strict=True):
        low = top - _TITLE - table
        axes = axes_in_inches(figure, _LEFT, low, _COLUMN * len(shown), table)
        axes.set_title(f"{size} labelled images per class")
        _draw_table(axes, values[:, :, places].mean(1), facts["rows"])
        _draw_curves(figure, low - _GAP - _CURVES, values, facts)
        top -= part
    return figure


def _draw_examples(axes: Axes, images: Float[np.ndarray, "k 1 h w"], names: list[str]) -> None:
    """Show one image under every change, the name above."""
    gap = max(1, images.shape[-1] // 14)
    axes.imshow(compose_grid(images[None], gap=gap), aspect="auto", interpolation="nearest")
    centres = np.arange(len(names)) * (images.shape[-1] + gap) + images.shape[-1] / 2
    axes.set_xticks(centres, labels=names, rotation=35, ha="left", fontsize=8)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _draw_table(axes: Axes, means: Float[np.ndarray, "rows tests"], rows: list[str]) -> None:
    """Write accuracies, coloured by their difference from the first line; outline the best."""
    axes.imshow(means - means[0], cmap="BrBG", vmin=-40, vmax=40, aspect="auto")
    axes.set_yticks(range(len(rows)), labels=[_TITLES[row] for row in rows], fontsize=8.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(means):
        strong = abs(value - means[0, column]) > 28
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
        axes.text(column, row, f"{value:.1f}", color="white" if strong else INK, **style)
    for column, row in enumerate(means.argmax(0)):
        outline_cell(axes, int(row), column)


def _draw_curves(
    figure: Figure,
    bottom: float,
    accuracy: Float[np.ndarray, "rows seeds tests"],
    facts: dict[str, Any],
) -> None:
    """Draw accuracy by strength for turned, resized and sheared digits."""
    each = (figure.get_size_inches()[0] - _LEFT - 1.6) / len(SWEEPS)
    colours = (MUTED, *COLOURS)
    for k, (name, strengths) in enumerate(SWEEPS.items()):
        axes = axes_in_inches(figure, _LEFT + k * each, bottom, each - 0.45, _CURVES)
        tests = {_STILL[name]: UNCHANGED} | {s: f"{name} {s:g}" for s in strengths}
        places = [facts["tests"].index(tests[s]) for s in sorted(tests)]
        for row, values, colour in zip(
            facts["rows"], accuracy[:, :, places], colours, strict=False
        ):
            mean, spread = values.mean(0), values.std(0, ddof=min(1, len(values) - 1))
            axes.plot(sorted(tests), mean, color=colour, marker=".", label=_TITLES[row])
            axes.fill_between(
                sorted(tests), mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
            )
        axes.set_title(f"{name}, {_UNITS[name]}", fontsize=8.5)
        axes.grid(axis="y")
        axes.tick_params(labelsize=7.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)


FIGURE = PaperFigure(
    __doc__,
    "no counterpart",
    compute,
    draw,
    needs=("operators", "classifier", "coefficient_encoder"),
    columns=("labels",),
)
