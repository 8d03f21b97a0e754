"""Tables of few labels: augmentations, moves and their controls, unlabelled images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import mean, stdev
from typing import Any

from transop_paper.numbers.layout import Measurements, from_file, table

Measured = dict[str, Any]  # the content of a JSON file

_SETS = {"mnist": "MNIST", "fashion": "Fashion-MNIST"}


def _table1(measured: Measured) -> str:
    """Give every row, and its paired difference from the fixed augmentation that validates best."""
    fixed = [row for row in measured["rows"] if not row["row"].startswith("transport")]
    best = max(fixed, key=lambda row: row["validation"])
    published = any(row["paper"] for row in measured["rows"])
    rows = []
    for row in measured["rows"]:
        cells = [row["title"], row["labels_used"], _accuracy(row), str(row["n_seeds"])]
        cells.append("" if row is best else _gap(row, best))
        if published:
            paper = row["paper"]
            cells.append("" if paper is None else f"{paper[0]:.1f} ± {paper[1]:.1f}")
        rows.append(cells)
    head = ["row", "labels used", "accuracy", "seeds", "minus the best fixed one"]
    return table([*head, *(["paper"] if published else [])], rows)


def _contest(measured: Measured) -> str:
    """Give every row's accuracy, the paired difference from the entry, and minutes per seed."""
    gaps = {one["row"]: one for one in measured["differences"]}
    rows = []
    for row in sorted(measured["rows"], key=lambda row: -row["mean"]):
        gap, n = gaps.get(row["row"]), row["n_seeds"]
        less = "" if gap is None else f"{gap['mean']:+.2f} ± {gap['standard_error']:.2f}"
        accuracy = f"{row['mean']:.2f} ± {row['deviation']:.2f}"
        rows.append([row["title"], accuracy, str(n), less, f"{row['minutes'] / n:.1f}"])
    head = ["row", "accuracy", "seeds", "entry minus row ± standard error", "minutes per seed"]
    return table(head, rows)


def _accuracy(row: Mapping[str, Any]) -> str:
    """Write mean and standard deviation over seeds."""
    return f"{row['mean']:.1f} ± {row['deviation']:.1f}"


def _few_labels(read: Measurements) -> str:
    """Give the main rows of Table 1 on both data sets."""
    words = {
        "none": ("none", "100"),
        "randaugment": ("RandAugment", "100"),
        "elastic": ("elastic distortion", "100"),
        "transport-graph": ("learned moves, ranges without labels", "100"),
        "transport-graph-guarded": ("learned moves, ranges and guard without labels", "100"),
        "transport-encoder": ("learned moves, ranges from all labels", "all, for the ranges"),
        "transport-guarded": (
            "learned moves, ranges and guard from all labels",
            "all, for ranges and guard",
        ),
    }
    sets = [{row["row"]: row for row in read(f"table1-{name}")["rows"]} for name in _SETS]
    rows = [
        [*told, *("" if key not in found else _accuracy(found[key]) for found in sets)]
        for key, told in words.items()
    ]
    seeds = [max(row["n_seeds"] for row in found.values()) for found in sets]
    head = [f"{name}, {n} seeds" for name, n in zip(_SETS.values(), seeds, strict=True)]
    return table(["augmentation", "labels it may use", *head], rows)


def _contest_in_short(read: Measurements) -> str:
    """Give the main rows with unlabelled images on both data sets."""
    words = {
        "poisson-joint": "the graph alone (`transop label`)",
        "entry": "a network that learns from the graph",
        "entry-transport": "the same, with moves along operators",
        "entry-noise": "the same, with latent noise of equal length (control)",
        "fixmatch": "FixMatch",
    }
    sets = [{row["row"]: row for row in read(f"contest-{name}")["rows"]} for name in _SETS]
    rows = [[told, *(_accuracy(found[key]) for found in sets)] for key, told in words.items()]
    return table(["100 labels and all images", "MNIST", "Fashion-MNIST"], rows)


def _controls(read: Measurements, *, words: Mapping[str, str] | None = None) -> str:
    """Compare rows of Table 1 with random directions of the same length, seed by seed.

    ``words`` names the rows to show, and what they are called.
    """
    rows = []
    for name, title in _SETS.items():
        found = {row["row"]: row for row in read(f"controls-{name}")["rows"]}
        for key, noise in found.items():
            if not key.startswith("noise-"):
                continue
            learned = found[key.replace("noise", "transport")]
            if words is not None and learned["row"] not in words:
                continue
            told = (words or {}).get(learned["row"], learned["title"].removeprefix("Transport, "))
            cells = (_accuracy(learned), _accuracy(noise), _gap(learned, noise))
            rows.append([f"{title}: {told}", *cells])
    head = ["row", "along operators", "random directions", "difference ± standard error"]
    return table(head, rows)


def _directions(read: Measurements) -> str:
    """Compare operator moves of unlabelled images with the same lengths in other directions."""
    words = {"entry-noise": "random directions", "entry-lines": "straight lines to neighbours"}
    rows = []
    for name, title in _SETS.items():
        found = {row["row"]: row for row in read(f"contest-{name}")["rows"]}
        gaps = [_gap(found["entry-transport"], found[other], digits=2) for other in words]
        rows.append([title, *gaps])
    return table(["moves along operators minus", *words.values()], rows)


def _gap(row: Measured, other: Measured, digits: int = 1) -> str:
    """Write by how much a row is better, seed by seed, and the standard error of that."""
    gaps = [a - b for a, b in zip(row["accuracies"], other["accuracies"], strict=True)]
    return f"{mean(gaps):+.{digits}f} ± {stdev(gaps) / len(gaps) ** 0.5:.{digits}f}"


def _same_labels(read: Measurements) -> str:
    """Compare rows whose ranges come from the 100 labels with elastic distortion, by seed."""
    rows = []
    for name, title in _SETS.items():
        own = read(f"few-labels-{name}")["rows"]
        elastic = {row["row"]: row for row in read(f"table1-{name}")["rows"]}["elastic"]
        for row in [elastic, *own]:
            more = "" if row is elastic else _gap(row, elastic)
            rows.append([title, row["title"], _accuracy(row), str(row["n_seeds"]), more])
    head = ["images", "row", "accuracy", "seeds", "minus elastic ± standard error"]
    return table(head, rows)


# Name in a page's mark, and how the table is written.
SCARCE: dict[str, Callable[[Measurements], str]] = {
    **{f"table1-{name}": from_file(f"table1-{name}", _table1) for name in _SETS},
    **{f"contest-{name}": from_file(f"contest-{name}", _contest) for name in (*_SETS, "yale")},
    "few-labels": _few_labels,
    "contest": _contest_in_short,
    "same-labels": _same_labels,
    "controls": _controls,
    "controls-in-short": partial(
        _controls,
        words={"transport-encoder": "ranges", "transport-guarded": "ranges and guard"},
    ),
    "directions": _directions,
}
