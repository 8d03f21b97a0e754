"""Tables of studies that stand by themselves: features, changed digits, dense coefficients."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from transop_paper.numbers.layout import Measurements, from_file, interval, percent, table

Measured = dict[str, Any]  # the content of a JSON file

_MOVES = (
    "operators, one scale each",
    "operators, local scales",
    "isotropic noise",
    "noise with the data's covariance",
    "noise with the covariance of neighbours' differences",
    "towards a neighbour",
)
_SETS = {"fruits": "fruits", "celeba": "CelebA"}
_LENGTHS = (0.4, 0.8, 1.6)


def _embeddings(measured: Measured, part: str, key: str, head: str, sign: str = "") -> str:
    rows = [
        [
            move,
            *(
                interval([one[part][move][f"{key} {length}"] for one in found], sign=sign)
                for found in (measured[name]["results"] for name in _SETS)
                for length in _LENGTHS
            ),
        ]
        for move in _MOVES
    ]
    columns = [f"{title} {length}" for title in _SETS.values() for length in _LENGTHS]
    return table([head, *columns], rows)


def _embedding_setting(measured: Measured) -> str:
    """Say how many rows there were and how far paths lead, mean over seeds."""
    rows = []
    for name, title in _SETS.items():
        counts, results = measured[name]["rows"], measured[name]["results"]
        covered, used = (
            mean(one["operators"]["learned"][key] for one in results) for key in ("covered", "used")
        )
        counted = [f"{counts[key]:,}" for key in ("train", "held out")]
        rows.append([title, *counted, percent(covered), f"{used:.1f}"])
    head = ["", "training rows", "held-out rows", "paths between neighbours cover"]
    return table([*head, "operators per path"], rows)


def _embedding_paths(measured: Measured) -> str:
    found = measured["celeba"]["results"]
    lines = {
        "path of operators": "path of operators",
        "straight line": "straight line",
        "straight line, moved as far": "straight line that moved as far",
    }
    times = ("0.5", "1.0", "1.5", "2.0", "3.0")
    rows = []
    for key, unit, digits in (("distance", 1, 2), ("kept", 100, 1)):
        for line, words in lines.items():
            values = [[one["paths"][line][f"{key} {t}"] for one in found] for t in times]
            rows.append(
                [f"{key}, {words}", *(interval(v, unit=unit, digits=digits) for v in values)]
            )
    return table(["CelebA", "t = 0.5", "1", "1.5", "2", "3"], rows)


def _embedding_turns(measured: Measured) -> str:
    found = measured["fruits"]["results"]
    known, unknown, again = "turn, held-out angles", "turn, held-out objects", "turn again"
    asked = {
        "known objects at held-out angles": [
            ("operators, mean coefficients of the object", known, "hit"),
            ("mean difference of the object", known, "hit"),
            ("linear map", known, "hit"),
            ("linear map of the object", known, "hit"),
        ],
        "unknown objects": [
            ("operators, mean coefficients", unknown, "hit"),
            ("mean difference", unknown, "hit"),
            ("linear map", unknown, "hit"),
        ],
        "half way between two frames 24° apart": [
            ("operators of neighbours", again, "between: hit"),
            ("straight line", again, "between: hit"),
        ],
        "as far again after a turn of 12°": [
            ("operators of neighbours", again, "further: hit"),
            ("straight line", again, "further: hit"),
        ],
    }
    rows = [
        [where if place == 0 else "", method, interval([one[part][method][key] for one in found])]
        for where, methods in asked.items()
        for place, (method, part, key) in enumerate(methods)
    ]
    return table(["", "method", "hits"], rows)


def _robustness(measured: Measured, size: int) -> str:
    """Give the accuracy on changed digits by augmentation, mean over seeds; the best is bold."""
    facts = measured["facts"]
    means = facts["mean_accuracy"][f"{size} per class"]
    names = {"randaugment": "RandAugment", "transport-encoder": "learned"}
    names |= {"transport-guarded": "learned, guarded"}
    changes = [name for name in facts["tests"] if not name[-1].isdigit()]  # each at one strength
    rows = []
    for change in (*changes, "mean of the fifteen changes"):
        values = [means[row][change] for row in facts["rows"]]
        shown = (f"**{v:.1f}**" if v == max(values) else f"{v:.1f}" for v in values)
        rows.append([change, *shown])
    return table(["change", *(names.get(row, row) for row in facts["rows"])], rows)


def _sparse_dense(measured: Measured) -> str:
    """Compare sparse with dense coefficients on one data set."""
    found = measured["sparse-dense"]
    names = {
        "relative_error": "relative error",
        "n_used_per_pair": "operators per path",
        "eigenvalue_times_coefficient": "growth rate",
        "transport_error": "transport error",
        "eigenvalue_over_coefficient": "normalised eigenvalue (the paper's)",
    }
    rows = [
        [words, *(f"{found[kind][key]:.3g}" for kind in ("sparse", "dense"))]
        for key, words in names.items()
    ]
    return table(["quantity", "sparse", "dense"], rows)


def _steps(total: Measured) -> str:
    """Say what was measured, how long it took and at which commits."""
    rows = []
    for name, step in total["steps"].items():
        commits = [commit[:10] for commit in (step["commit"] or "unknown", *step["other_commits"])]
        about = step["about"] + ("" if step["is_current"] else " (measured by earlier commands)")
        rows.append([f"`{name}`", about, f"{step['seconds'] / 60:.1f}", ", ".join(commits)])
    rows.append(["all", "", f"{60 * total['hours']:.0f}", ""])
    return table(["step", "what it measures", "minutes", "commit"], rows)


# Name in a page's mark, and how the table is written.
STUDIES: dict[str, Callable[[Measurements], str]] = {
    "embeddings-moves": from_file(
        "embeddings", _embeddings, part="moves", key="linear", head="move of length"
    ),
    "embeddings-few-labels": from_file(
        "embeddings", _embeddings, part="few labels", key="gain", head="copies moved by", sign="+"
    ),
    "steps": from_file("reproduce", _steps),
    "embeddings-setting": from_file("embeddings", _embedding_setting),
    "embeddings-paths": from_file("embeddings", _embedding_paths),
    "embeddings-turns": from_file("embeddings", _embedding_turns),
    "robustness-mnist-10": from_file("robustness-mnist", _robustness, size=10),
    "robustness-mnist-100": from_file("robustness-mnist", _robustness, size=100),
    "sparse-dense-celeba": from_file("figures-celeba", _sparse_dense),
}
