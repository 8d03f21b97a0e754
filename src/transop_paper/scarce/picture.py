"""The table as a picture: one line per row, every seed a dot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from transop.plotting import COLOURS, look, new_figure
from transop_paper.scarce.results import Summary

_FIXED, _HUNDRED, _ALL, _UNLABELLED = COLOURS[6], COLOURS[0], COLOURS[1], COLOURS[2]


def draw_table(summaries: Sequence[Summary], *, title: str = "") -> Figure:
    """Draw mean, deviation and seeds of every row, coloured by the labels that went into it.

    Args:
        summaries: the rows, top to bottom.
        title: a line above.
    """
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

    handles = [
        Line2D([], [], marker="o", ls="", color=_FIXED, label="fixed augmentations"),
        Line2D([], [], marker="o", ls="", color=_HUNDRED, label="learned, the 100 labels only"),
        Line2D([], [], marker="o", ls="", color=_ALL, label="learned, classifier saw all labels"),
        Line2D([], [], marker="o", ls="", color=_UNLABELLED, label="100 labels, unlabelled images"),
    ]
    if any(summary.paper for summary in summaries):
        handles.append(
            Line2D([], [], marker="D", ls="", mfc="white", mec="#888888", label="the paper")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
