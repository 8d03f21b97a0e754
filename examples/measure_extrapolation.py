"""Measure how long paths of a trained run keep their class, with the straight-line control.

    python examples/measure_extrapolation.py runs/mnist
    python examples/measure_extrapolation.py runs/mnist --residual 0.12 --sparsity-weight 0.01
    python examples/measure_extrapolation.py runs/mnist-ae --residual 0.12 --classifier runs/mnist

Pairs of held-out images of one class are joined by the run's operators, or by straight lines if
the run is a baseline. The run's classifier, which was trained on real images only, classifies the
images along the paths; `--classifier` names another run to take it from. What curvature is worth
is a small difference: 400 pairs per class give it to a point, 4,000 to a third of one.

A shorter path keeps its class longer, so compare runs at equal residuals only: with `--residual`
every path ends where its mean distance from the second image is that share of |z1|. A small
`--sparsity-weight` makes the path end before the image and not beside it. The unit |z1| differs
between networks: with `--covered 0.8` paths end where they cover this share of the distance
between the two images.
"""

import argparse
from pathlib import Path

import torch

from transop import ManifoldAutoencoder, Run
from transop.artifacts import write_json
from transop.evaluation import same_class_pairs
from transop_paper.extrapolation import lead_over, measure_extrapolation
from transop_paper.figures.companions import load_companion

TIMES = [1.0, 1.5, 2.0, 2.5, 3.0]


def main() -> None:
    """Print accuracy, control, what curvature adds, and the residual of a run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs-per-class", type=int, default=400)
    parser.add_argument("--split", default="test", help="whose images; test if not given")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--residual", type=float, help="where paths end, as a share of |z1|")
    ends.add_argument("--covered", type=float, help="the same as a share of the distance")
    parser.add_argument("--sparsity-weight", type=float, help="of inference, if not the run's own")
    parser.add_argument("--classifier", type=Path, help="of another run, instead of this one's")
    parser.add_argument("--json", type=Path, help="file to write the numbers to")
    wanted = parser.parse_args()
    run = Run.open(wanted.classifier or wanted.run)
    classify, dataset = run.model.classify, run.dataset
    model = load_companion(wanted.run, run.data)  # a baseline's too; on the same images
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
        classify,
        dataset.batch(rows[first]),
        dataset.batch(rows[second]),
        torch.from_numpy(labels[first]),
        times=TIMES,
        residual=wanted.residual,
        covered=wanted.covered,
    )
    print("t        ", *(f"{t:6.2f}" for t in TIMES))
    print("paths    ", *(f"{100 * a:6.1f}" for a in result.accuracy()))
    print("control  ", *(f"{100 * a:6.1f}" for a in result.control_accuracy()))
    lead, half_width = lead_over(result.correct, result.control_correct)
    print("curvature", *(f"{100 * value:+6.1f}" for value in lead))
    print("  95 % +-", *(f"{100 * value:6.1f}" for value in half_width))
    print(f"mean relative residual {result.residual.mean():.3f}")
    print(f"mean share of the distance covered {result.share_covered.mean():.3f}")
    print(f"paths end at {result.stop:.2f} of what inference found")
    if wanted.json is not None:
        write_json(
            wanted.json,
            {
                "run": run.name if wanted.classifier is None else wanted.run.name,
                "pairs": len(first),
                "times": TIMES,
                "paths": result.accuracy(),
                "control": result.control_accuracy(),
                "half_width": half_width.tolist(),
                "residual": float(result.residual.mean()),
                "covered": float(result.share_covered.mean()),
                "stop": float(result.stop),
            },
        )


if __name__ == "__main__":
    main()
