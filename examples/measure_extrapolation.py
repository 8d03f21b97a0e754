"""Measure how long paths of a trained run keep their class, with the straight-line control.

    python examples/measure_extrapolation.py runs/mnist
    python examples/measure_extrapolation.py runs/mnist --residual 0.12 --sparsity-weight 0.01
    python examples/measure_extrapolation.py runs/mnist-ae --residual 0.12 --judge runs/mnist

Pairs of held-out images of one class are joined by the run's operators, or by straight lines if
the run is a baseline, and judged by the run's own classifier, which never saw a decoded image, or
by that of another run. What curvature is worth is a small difference: 400 pairs per class know it
to a point, 4,000 to a third of one.

A path that stops shorter keeps its class longer, so runs compare at equal residuals only: with
`--residual` every path ends where it misses the second image by that share of |z1|, on average. A
small `--sparsity-weight` makes sure that it stops before the image and not beside it.
"""

import argparse
from pathlib import Path

import torch

from transop import ManifoldAutoencoder, Run
from transop.evaluation import lead_over, measure_extrapolation, same_class_pairs
from transop_paper.figures.companions import load_companion

TIMES = [1.0, 1.5, 2.0, 2.5, 3.0]


def main() -> None:
    """Print accuracy, control, what curvature adds, and the residual of a run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs-per-class", type=int, default=400)
    parser.add_argument("--split", default="test", help="whose images; test if not given")
    parser.add_argument("--residual", type=float, help="where paths end, as a share of |z1|")
    parser.add_argument("--sparsity-weight", type=float, help="of inference, if not the run's own")
    parser.add_argument("--judge", type=Path, help="a run whose classifier judges, if not this one")
    wanted = parser.parse_args()
    dataset = Run.open(wanted.run).dataset
    model = load_companion(wanted.run)
    judge = ManifoldAutoencoder.from_pretrained(wanted.judge or wanted.run)
    if wanted.sparsity_weight is not None:
        assert isinstance(model, ManifoldAutoencoder), "straight lines have no sparsity weight"
        model.sparsity_weight = wanted.sparsity_weight
    assert dataset.labels is not None
    rows = dataset.splits[wanted.split]
    labels = dataset.labels[rows]
    draw = torch.Generator().manual_seed(1)
    first, second = same_class_pairs(labels, wanted.pairs_per_class, draw)
    result = measure_extrapolation(
        model,
        judge.classify,
        dataset.batch(rows[first]),
        dataset.batch(rows[second]),
        torch.from_numpy(labels[first]),
        times=TIMES,
        residual=wanted.residual,
    )
    print("t        ", *(f"{t:6.1f}" for t in TIMES))
    print("paths    ", *(f"{100 * a:6.1f}" for a in result.accuracy()))
    print("control  ", *(f"{100 * a:6.1f}" for a in result.control_accuracy()))
    lead, half_width = lead_over(result.correct, result.control_correct)
    print("curvature", *(f"{100 * value:+6.1f}" for value in lead))
    print("  95 % +-", *(f"{100 * value:6.1f}" for value in half_width))
    print(f"mean relative residual {result.residual.mean():.3f}")
    print(f"mean share of the way covered {result.way.mean():.3f}")
    print(f"paths end at {result.stop:.2f} of what inference found")


if __name__ == "__main__":
    main()
