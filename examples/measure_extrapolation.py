"""Measure how long paths of a trained run keep their class, with the straight-line control.

    python examples/measure_extrapolation.py runs/mnist
    python examples/measure_extrapolation.py runs/mnist 4000

Pairs of test images of one class, 400 per class unless told otherwise, are joined by the run's
operators and judged by the run's own classifier, which never saw a decoded image. What curvature is
worth is a small difference: 400 pairs per class know it to a point, 4,000 to a third of one.
"""

import sys
from pathlib import Path

import torch

from transop import ManifoldAutoencoder, load_dataset
from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.evaluation import lead_over, measure_extrapolation, same_class_pairs

TIMES = [1.0, 1.5, 2.0, 2.5, 3.0]


def main(run: str, n_per_class: int = 400) -> None:
    """Print accuracy, control, what curvature adds, and the residual of a run."""
    settings = load_settings(RunFolder(Path(run)).config_file)
    dataset = load_dataset(settings.data.source)
    model = ManifoldAutoencoder.from_pretrained(run)
    assert dataset.labels is not None
    test = dataset.splits["test"]
    labels = dataset.labels[test]
    first, second = same_class_pairs(labels, n_per_class, torch.Generator().manual_seed(1))
    result = measure_extrapolation(
        model,
        model.classify,
        dataset.batch(test[first]),
        dataset.batch(test[second]),
        torch.from_numpy(labels[first]),
        times=TIMES,
    )
    print("t        ", *(f"{t:6.1f}" for t in TIMES))
    print("operators", *(f"{100 * a:6.1f}" for a in result.accuracy()))
    print("control  ", *(f"{100 * a:6.1f}" for a in result.control_accuracy()))
    lead, half_width = lead_over(result.correct, result.control_correct)
    print("curvature", *(f"{100 * value:+6.1f}" for value in lead))
    print("  95 % +-", *(f"{100 * value:6.1f}" for value in half_width))
    print(f"mean relative residual {result.residual.mean():.3f}")
    print(f"mean share of the way covered {result.way.mean():.3f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
