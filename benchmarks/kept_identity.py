"""Kept labels against the length of moves, for identity from labels and from the neighbour graph.

    python benchmarks/kept_identity.py OUT RUN [RUN ...] [--split test] [--images 2000]

Every RUN has labels (or CelebA's attributes) and operators; give several that differ in their seed.
For each source of identity a coefficient encoder is trained on RUN's operators, in a folder of its
own below OUT. All are then judged by the classifier of the labelled one, on decoded points, by the
true labels or attributes. OUT/kept.json gets every curve, and the means over runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import transop
from transop.artifacts import RunFolder
from transop.evaluation import measure_kept_curves
from transop.training import train
from transop_paper.scarce.few_label_identity import WITHOUT_LABELS

LENGTHS = (0.2, 0.3, 0.4)
# What the labelled encoder is trained with, and what `transop fit` chooses without labels.
SOURCES = {"labels": ("identity.source=labels",), "graph": WITHOUT_LABELS}


def main() -> None:
    """Train what is missing, measure, print a table and store the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=float, help="of the coefficient encoders")
    options = parser.parse_args()
    found = [measure(path, options) for path in options.runs]
    table = summarise(found)
    result = {"split": options.split, "images": options.images, "runs": found, "mean": table}
    (options.out / "kept.json").write_text(json.dumps(result, indent=1))
    print("length             " + "".join(f"{length:14.2f}" for length in LENGTHS))
    for source, row in table.items():
        cells = (f"{100 * mean:8.1f} ± {100 * half:3.1f}" for mean, half in row)
        print(f"{source:18s} " + " ".join(cells))


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Give the curves of one run."""
    run = transop.Run.open(path)
    place = options.out / run.name
    models = {
        name: with_identity(run, place / name, changes, options.epochs)
        for name, changes in SOURCES.items()
    }
    rows = run.dataset.splits[options.split][: options.images]
    truth, latents = true_names(run, models["labels"], rows), run.latents(rows)
    judge = models["labels"].classify_latents
    curves = measure_kept_curves(
        run.model.operators.operators.detach(),
        latents,
        {name: model.scales_at(latents) for name, model in models.items()},
        judge,
        lengths=LENGTHS,
        names=truth,
    )
    named = torch.cat([judge(chunk).argmax(-1) for chunk in latents.split(500)])
    return {
        "run": run.name,
        "seed": run.settings.runtime.seed,
        "unmoved": float((named == truth).float().mean()),
        "graph": models["graph"].config()["identity"],
        "curves": [curve.as_dict() for curve in curves],
    }


def true_names(run: transop.Run, model: transop.ManifoldAutoencoder, rows: Any) -> Tensor:
    """Give the class of every image, or its attributes as zeros and ones."""
    data = run.dataset
    if data.labels is not None and data.n_classes > 1:
        return torch.from_numpy(data.labels[rows])
    names = list(data.meta.attribute_names)
    columns = [names.index(name) for name in model.classifier.attribute_names]
    return torch.from_numpy((data.attributes[rows][:, columns] > 0).astype("int64"))


def with_identity(
    run: transop.Run, path: Path, changes: tuple[str, ...], epochs: float | None
) -> transop.ManifoldAutoencoder:
    """Train identity and coefficient encoder on the operators of a run, unless that is done."""
    wanted = [*changes, *([] if epochs is None else [f"coefficient_encoder.epochs={epochs}"])]
    if run.settings.classifier.network != "attributes":
        wanted.append("classifier.domain=image")
    settings, folder = run.settings.updated(wanted), RunFolder(path)
    if not folder.model_file.exists():
        bare = transop.ManifoldAutoencoder.from_pretrained(run.path)
        bare.classifier = bare.coefficient_encoder = bare.identity_facts = None
        later = ("classifier", "coefficient_encoder")
        bare.phases = tuple(phase for phase in bare.phases if phase not in later)
        bare.save_pretrained(path)
        folder.config_file.write_text(settings.to_toml())
    return train(settings, folder, dataset=run.dataset, resume=True)


def summarise(found: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Average over runs; the half width is that of a 95 % interval, of the draw for one run."""
    table = {}
    for number, first in enumerate(found[0]["curves"]):
        row = []
        for place in range(len(LENGTHS)):
            values = [one["curves"][number]["kept"][place] for one in found]
            half = first["half_width"][place]
            if len(values) > 1:
                half = 2 * statistics.stdev(values) / len(values) ** 0.5
            row.append((statistics.mean(values), half))
        table[first["source"]] = row
    return table


if __name__ == "__main__":
    main()
