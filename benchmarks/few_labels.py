"""What learning from few labels expects of itself, and what is true.

    python benchmarks/few_labels.py OUT.json [--images 5000] [--per-class 10] [--seeds 0 1 2]

For each data set and seed, some images are drawn from the training split, and some of each class
keep their label. `learn_from_few_labels` gets nothing else. The graph's labels are then compared
with the true ones of all other drawn images, the network's with those of the test split.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transop
from transop.semi_supervised import Consistency, learn_from_few_labels

AT_ONCE = 1_000


def main() -> None:
    """Measure every data set and seed; write after each, so that nothing is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--datasets", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=2.0, help="for training a model")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=Consistency().n_steps, help="of a network")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    kept = {key: value for key, value in vars(options).items() if key not in ("out", "seeds")}
    for seed in options.seeds:
        for name in options.datasets:
            rows.append(measure(name, seed, options))
            print(json.dumps(rows[-1]), flush=True)
            options.out.write_text(json.dumps({"options": kept, "rows": rows}, indent=1))


def measure(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Learn from few labels of one data set, and look at the others afterwards."""
    start = time.monotonic()
    dataset = transop.load_dataset(name)
    assert dataset.labels is not None
    chance = np.random.default_rng(seed)
    drawn = chance.permutation(dataset.splits["train"])[: options.images]
    truth = dataset.labels[drawn]
    known = np.full(len(drawn), -1)
    for label in np.unique(truth):
        labelled = np.flatnonzero(truth == label)[: options.per_class]  # drawn in random order
        known[labelled] = label
    found = learn_from_few_labels(
        dataset.images[drawn],
        labels=known,
        minutes=options.minutes,
        settings=Consistency(n_steps=options.steps),
        n_folds=options.folds,
        seed=seed,
    )
    assert found.graph is not None
    others = known < 0
    test = dataset.splits[dataset.held_out_split]
    parts = np.array_split(test, max(1, len(test) // AT_ONCE))
    answers = torch.cat([found.probabilities(dataset.batch(part)).argmax(1) for part in parts])
    return {
        "dataset": name,
        "seed": seed,
        "n_labelled": found.n_labelled,
        "graph": {
            "expected": _expected(found.graph.expected_accuracy),
            "true": float((found.graph.labels == truth)[others].mean()),
        },
        "network": {
            "expected": _expected(found.expected_accuracy),
            "true": float((answers.numpy() == dataset.labels[test]).mean()),
        },
        "minutes": round((time.monotonic() - start) / 60, 1),
    }


def _expected(found: Any) -> dict[str, float] | None:
    return None if found is None else asdict(found)


if __name__ == "__main__":
    main()
