"""Accuracy from ten labelled images per class, by augmentation.

Test accuracy of a LeNet-5 trained on ten labelled images per class, by how these are augmented:
mean and standard deviation over seeds, every seed a dot, and the paper's value where it has one.
Colours tell whether the learned moves were guarded with all training labels or with the hundred
alone. At quick scale training is so short that only the machinery is shown.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transop.artifacts import read_json
from transop.errors import UserError
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun
from transop_paper.scarce.experiment import Experiment, run_table
from transop_paper.scarce.protocol import SCALES
from transop_paper.scarce.results import Summary, draw_table, summarise
from transop_paper.scarce.rows import find_rows

# One row of every kind; the others differ in settings, or train a classifier for every seed.
_QUICK_ROWS = (
    "none",
    "randaugment",
    "elastic",
    "transport-prior",
    "transport-encoder",
    "transport-guarded",
)
_QUICK_SEEDS = 2
_WORDS = ("row", "title", "labels_used", "paper", "n_seeds")
_VALUES = ("mean", "deviation", "validation", "kept_by_guard")


def compute(run: PaperRun) -> Numbers:
    """Run a short table at quick scale; at full scale read the one that is in the run folder.

    The full table takes hours, so it has a command of its own, ``transop paper table1``.
    """
    folder = run.path / "table1"
    if run.scale == "full":
        file = folder / "table1.json"
        if not file.exists():
            raise UserError(
                f"'{run.path}' holds no table; it takes hours and is made by: "
                f"transop paper table1 --run {run.path}"
            )
        return tabulate([Summary(**entry) for entry in read_json(file)])
    dataset = run.dataset
    if missing := {"validation", "test"} - set(dataset.splits):
        raise UserError(
            f"data set '{dataset.meta.name}' has no {missing.pop()} images, which table1 needs; "
            "choose another data set"
        )
    experiment = Experiment.of(run, SCALES["quick"], folder.with_name("table1-quick"), dataset)
    return tabulate(measure(experiment, _QUICK_ROWS, _QUICK_SEEDS))


def measure(experiment: Experiment, names: Sequence[str], n_seeds: int) -> list[Summary]:
    """Train and score the named rows, whatever an earlier run left behind."""
    rows = find_rows(names, experiment.dataset.meta.name)
    return summarise(rows, run_table(experiment, rows, n_seeds, force=True))


def tabulate(summaries: Sequence[Summary]) -> Numbers:
    """Lay the rows out as arrays, one entry per row; seeds that were not run are NaN."""
    seeds = np.full((len(summaries), max(s.n_seeds for s in summaries)), np.nan)
    for place, summary in enumerate(summaries):
        seeds[place, : summary.n_seeds] = summary.accuracies
    arrays = {name: np.array([getattr(s, name) for s in summaries]) for name in _VALUES}
    facts: dict[str, Any] = {name: [getattr(s, name) for s in summaries] for name in _WORDS}
    return Numbers({**arrays, "seeds": seeds}, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw every row as a line, every seed as a dot."""
    words = zip(*(numbers.facts[name] for name in _WORDS), strict=True)
    summaries = []
    for place, (entry, seeds) in enumerate(zip(words, numbers["seeds"], strict=True)):
        values: dict[str, Any] = {name: float(numbers[name][place]) for name in _VALUES}
        values |= zip(_WORDS, entry, strict=True)
        accuracies = tuple(seeds[np.isfinite(seeds)].tolist())
        summaries.append(Summary(**values, minutes=0.0, accuracies=accuracies))
    n = max(summary.n_seeds for summary in summaries)
    return draw_table(summaries, title=f"LeNet-5 on ten labelled images per class, {n} seeds")


FIGURE = PaperFigure(
    __doc__,
    "Table 1",
    compute,
    draw,
    needs=("operators", "coefficient_encoder"),
    columns=("labels",),
)
