"""From results on disk to a table and a picture: mean, deviation, labels used, minutes."""

import csv
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from transop.artifacts import write_atomically, write_json
from transop.errors import UserError
from transop.plotting import COLOURS, look, new_figure
from transop_paper.scarce.rows import Row


@dataclass(frozen=True)
class Summary:
    """One row over its seeds; accuracies in percent."""

    row: str  # its name
    title: str  # what it is called in the table
    labels_used: str  # in words
    mean: float  # of the test accuracy; the deviation is between seeds (n - 1)
    deviation: float
    validation: float  # mean on the validation images, on which settings were chosen
    n_seeds: int  # how many
    kept_by_guard: float  # share of moves a guard accepted
    minutes: float  # of all seeds together
    paper: tuple[float, float] | None  # mean and deviation in the paper, if it has this row
    accuracies: tuple[float, ...]  # one test accuracy per seed, in the order of seeds


def summarise(rows: Sequence[Row], results: Sequence[dict[str, Any]]) -> list[Summary]:
    """Average the results of each row over its seeds, in the order of rows."""
    summaries = []
    for row in rows:
        own = sorted((r for r in results if r["row"] == row.name), key=lambda r: r["seed"])
        if not own:
            continue
        accuracies = tuple(float(result["test"]) for result in own)
        summaries.append(
            Summary(
                row=row.name,
                title=row.title,
                labels_used=row.labels_used(),
                mean=statistics.mean(accuracies),
                deviation=statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
                validation=statistics.mean(result["validation"] for result in own),
                n_seeds=len(own),
                kept_by_guard=statistics.mean(result["kept_by_guard"] for result in own),
                minutes=sum(result["seconds"]["all"] for result in own) / 60,
                paper=row.paper,
                accuracies=accuracies,
            )
        )
    return summaries


@dataclass(frozen=True)
class Difference:
    """How much better one row is than another on the same seeds, in percent of test accuracy."""

    row: str
    reference: str
    mean: float
    standard_error: float
    n_seeds: int


def compare_rows(results: Sequence[dict[str, Any]], reference: str) -> list[Difference]:
    """Compare a row with every other one, seed by seed.

    Every seed draws the same labelled images for all rows, so that differences of one seed vary
    less than accuracies do.

    The accuracy of every other row is subtracted from the reference's.
    """
    tests: dict[str, dict[int, float]] = {}
    for result in results:
        tests.setdefault(result["row"], {})[result["seed"]] = float(result["test"])
    if reference not in tests:
        raise UserError(f"row '{reference}' has no results; choose from {', '.join(tests)}")
    differences = []
    for row, own in tests.items():
        shared = sorted(own.keys() & tests[reference].keys())
        if row == reference or not shared:
            continue
        gaps = [tests[reference][seed] - own[seed] for seed in shared]
        deviation = statistics.stdev(gaps) if len(gaps) > 1 else math.nan
        differences.append(
            Difference(
                row=row,
                reference=reference,
                mean=statistics.mean(gaps),
                standard_error=deviation / math.sqrt(len(gaps)),
                n_seeds=len(gaps),
            )
        )
    return differences


def write_table(folder: Path, summaries: Sequence[Summary]) -> list[Path]:
    """Write the table as JSON, with every seed, and as CSV, one line per row."""
    numbers, lines = folder / "table1.json", folder / "table1.csv"
    write_json(numbers, [asdict(summary) for summary in summaries])
    rows = []
    for summary in summaries:
        row = {
            key: round(cell, 3) if isinstance(cell, float) else cell
            for key, cell in asdict(summary).items()
            if key not in ("accuracies", "paper")
        }
        paper = dict(zip(("paper_mean", "paper_deviation"), summary.paper or ("", ""), strict=True))
        rows.append(row | paper)
    _write_csv(lines, rows)
    return [numbers, lines]


def write_differences(folder: Path, differences: Sequence[Difference]) -> list[Path]:
    """Write paired differences as CSV, one line per row."""
    _write_csv(folder / "differences.csv", [asdict(difference) for difference in differences])
    return [folder / "differences.csv"]


def _write_csv(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(file, text.getvalue().encode())


_FIXED, _HUNDRED, _ALL, _UNLABELLED = COLOURS[6], COLOURS[0], COLOURS[1], COLOURS[2]


def draw_table(summaries: Sequence[Summary], *, title: str = "") -> Figure:
    """Draw mean, deviation and seeds of every row, coloured by the labels that went into it."""
    with look():
        figure = new_figure(8.6, 0.32 * len(summaries) + 1.3)
        axes = figure.add_subplot(title=title)
        for place, summary in enumerate(summaries):
            colour = _colour(summary)
            seeds = np.array(summary.accuracies)
            axes.plot(seeds, np.full(len(seeds), place), ".", color=colour, alpha=0.35, zorder=2)
            axes.errorbar(
                summary.mean, place, xerr=summary.deviation, fmt="o", color=colour, capsize=3
            )
            if summary.paper is not None:
                axes.plot(summary.paper[0], place, "D", mfc="white", mec="#888888", zorder=1)
            axes.annotate(
                f"{summary.mean:.1f} ± {summary.deviation:.1f}",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                color=colour,
            )
        axes.set_yticks(range(len(summaries)), labels=[summary.title for summary in summaries])
        axes.set_ylim(len(summaries) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel("test accuracy, %")
        _legend(figure, summaries)
    return figure


def _colour(summary: Summary) -> str:
    if summary.labels_used.startswith("the 100 labels, all"):
        return _UNLABELLED
    if not summary.row.startswith("transport"):
        return _FIXED
    return _ALL if summary.labels_used.startswith("all") else _HUNDRED


def _legend(figure: Figure, summaries: Sequence[Summary]) -> None:
    from matplotlib.lines import Line2D

    words = {
        "fixed augmentations": _FIXED,
        "learned, the 100 labels only": _HUNDRED,
        "learned, classifier saw all labels": _ALL,
        "100 labels, unlabelled images": _UNLABELLED,
    }
    handles = [Line2D([], [], marker="o", ls="", color=c, label=text) for text, c in words.items()]
    if any(summary.paper for summary in summaries):
        handles.append(
            Line2D([], [], marker="D", ls="", mfc="white", mec="#888888", label="the paper")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
