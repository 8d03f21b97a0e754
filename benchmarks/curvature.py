"""What raises the curvature's own share of accuracy beyond the end point?

    transop baseline ae mnist-cpu --out runs/mnist-ae
    python benchmarks/curvature.py runs/mnist-ae --classifier runs/mnist

Operators are learned on one autoencoder again and again, with one thing changed at a time, and
measured as `examples/measure_extrapolation.py` does. Rows without fine-tuning take half a minute
each on one core, rows with it three; `--rows` chooses. A path that stops shorter stays in its class
longer, so rows compare at equal residuals only: with `--residual 0.12` paths are inferred with a
small sparsity weight and end where they miss their targets by so much.
"""

import argparse
import json
from pathlib import Path

import torch

from transop import ManifoldAutoencoder, fit, load_dataset
from transop.evaluation import (
    lead_over,
    measure_extrapolation,
    reconstruction_error,
    same_class_pairs,
)
from transop.operators import largest_real_part

ALONE = ["fine_tuning.epochs=0"]
PLAIN = ["beyond_paper.arrival_weight=0", "beyond_paper.beyond_weight=0"]
FREE = ["objective.real_part_penalty=0", "fine_tuning.real_part_penalty=0"]
ROWS = {
    "operators alone": ALONE,
    "operators alone, few steps": [*ALONE, "operators.learning_rate=2e-3", "operators.epochs=6"],
    "no penalty on real parts": [*ALONE, *FREE],
    "twice the sparsity weight": [*ALONE, "objective.sparsity_weight=0.2"],
    "twice the decay": [*ALONE, "objective.operator_decay=4e-4"],
    "a quarter of the decay": [*ALONE, "objective.operator_decay=5e-5"],
    "origin mirrored": [*ALONE, "beyond_paper.origin=mirrored"],
    "20 neighbours": [*ALONE, "pairs.n_neighbours=20"],
    "pairs by pixels": [*ALONE, "pairs.strategy=pixel"],
    "32 operators": [*ALONE, "operators.n_operators=32"],
    "two blocks": [*ALONE, "operators.n_blocks=2"],
    "fine-tuned, latents free": [*PLAIN, "beyond_paper.anchor_weight=0"],
    "fine-tuned, latents held": PLAIN,
    "fine-tuned, arrivals alone": ["beyond_paper.beyond_weight=0"],
    "fine-tuned, beyond alone": ["beyond_paper.arrival_weight=0"],
    "the recipe": [],
}
LEFT_OUT = ["classifier.epochs=0", "coefficient_encoder.epochs=0"]
PAIRS_PER_CLASS = 1000
FAITHFUL = 0.01  # sparsity weight of paths that end at their targets, unless told to stop
TIMES = [1.0, 1.5, 2.0, 2.5, 3.0]


@torch.inference_mode()
def measure(
    model: ManifoldAutoencoder, classified_by: ManifoldAutoencoder, dataset, residual: float | None
) -> dict:
    """Give the numbers of one row."""
    test = dataset.splits["test"]
    labels = dataset.labels[test]
    first, second = same_class_pairs(labels, PAIRS_PER_CLASS, torch.Generator().manual_seed(1))
    start, end = dataset.batch(test[first]), dataset.batch(test[second])
    truth = torch.from_numpy(labels[first])
    if residual is not None:
        model.sparsity_weight = FAITHFUL
    result = measure_extrapolation(
        model, classified_by.classify, start, end, truth, times=TIMES, residual=residual
    )
    lead, half_width = (100 * v[-1] for v in lead_over(result.correct, result.control_correct))
    living, real_parts = model.operators.living(), largest_real_part(model.operators.operators)
    return {
        "living": int(living.sum()),
        "largest real part": round(float(real_parts[living].max()), 2),
        "norms": [round(float(n), 1) for n in model.operators.magnitudes().sort().values],
        "mse": round(reconstruction_error(model, dataset, test), 4),
        "stop": round(result.stop, 2),
        "residual": round(float(result.residual.mean()), 3),
        "covered": round(float(result.share_covered.mean()), 3),
        "operators": [round(100 * share, 1) for share in result.accuracy()],
        "control": [round(100 * share, 1) for share in result.control_accuracy()],
        "curvature": f"{lead:+.1f} +- {half_width:.1f}",
    }


def main() -> None:
    """Learn and measure every row asked for; results are kept in a JSON-lines file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("autoencoder", type=Path, help="a run whose autoencoder is taken")
    parser.add_argument("--classifier", type=Path, required=True, help="a run with a classifier")
    parser.add_argument("--recipe", default="mnist-cpu")
    parser.add_argument("--residual", type=float, help="bring every row to this residual")
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--out", type=Path, default=Path("curvature.jsonl"))
    wanted = parser.parse_args()
    classified_by = ManifoldAutoencoder.from_pretrained(wanted.classifier)
    source = wanted.recipe.removesuffix("-cpu")
    dataset = load_dataset(source)
    for name in wanted.rows:
        overrides = [f"autoencoder.weights='{wanted.autoencoder}'", *LEFT_OUT, *ROWS[name]]
        model = fit(source, wanted.recipe, overrides=overrides)
        numbers = {"row": name, **measure(model, classified_by, dataset, wanted.residual)}
        print(json.dumps(numbers), flush=True)
        with wanted.out.open("a") as file:
            file.write(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
