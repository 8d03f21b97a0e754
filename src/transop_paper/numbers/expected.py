"""The table of accuracies that learning from few labels expects of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transop_paper.numbers.layout import from_file, table

_NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}


def _expected_accuracy(measured: Mapping[str, Any]) -> str:
    """Give expected and true accuracy of the graph's labels and of the network, seed by seed."""
    head = ["images", "seed", "labels: expected", "true", "classifier: expected", "true"]
    names = sorted({row["dataset"] for row in measured["rows"]}, reverse=True)
    rows = sorted(measured["rows"], key=lambda row: (names.index(row["dataset"]), row["seed"]))
    return table(
        head,
        (
            [
                _NAMES.get(row["dataset"], row["dataset"]),
                str(row["seed"]),
                *_pair(row["graph"]),
                *_pair(row["network"]),
            ]
            for row in rows
        ),
    )


def _pair(found: Mapping[str, Any]) -> tuple[str, str]:
    share, error = (100 * found["expected"][key] for key in ("share", "standard_error"))
    return f"{share:.1f} ± {error:.1f}", f"{100 * found['true']:.1f}"


EXPECTED = {"expected-accuracy": from_file("expected-accuracy", _expected_accuracy)}
