"""Kept labels against the length of moves, for identity from labels and from the neighbour graph.

    python benchmarks/kept_identity.py RUN OUT [--split validation] [--images 2000]

RUN is a labelled run that has operators. For each source of identity a coefficient encoder is
trained on RUN's operators, in a folder of its own below OUT. All are then judged by the classifier
of the labelled one, on decoded points, by the true labels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

import transop
from transop.artifacts import RunFolder
from transop.config import Settings
from transop.evaluation import measure_kept_curves
from transop.training import train

SOURCES = ("labels", "graph")
LENGTHS = (0.2, 0.3, 0.4)


def main() -> None:
    """Train what is missing, measure, print a table and store the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", default="validation", choices=("validation", "test"))
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=float, help="of the coefficient encoders")
    options = parser.parse_args()
    run = transop.Run.open(options.run)
    models = {name: _with_identity(run, options.out / name, name, options) for name in SOURCES}
    rows = run.dataset.splits[options.split][: options.images]
    names = torch.from_numpy(run.dataset.labels[rows])
    latents = run.latents(rows)
    curves = measure_kept_curves(
        run.model.operators.operators.detach(),
        latents,
        {name: model.scales_at(latents) for name, model in models.items()},
        models["labels"].classify_latents,
        lengths=LENGTHS,
        names=names,
    )
    named = models["labels"].classify_latents(latents).argmax(1)
    print(f"unmoved: {100 * float((named == names).float().mean()):.1f} % named rightly")
    print("identity of the graph:", models["graph"].config()["identity"])
    print("length             " + "".join(f"{length:8.2f}" for length in LENGTHS))
    for curve in curves:
        print(f"{curve.source:18s} " + "".join(f"{100 * kept:8.1f}" for kept in curve.kept))
    stored = [curve.as_dict() for curve in curves]
    (options.out / "curves.json").write_text(json.dumps(stored, indent=2))


def _with_identity(
    run: transop.Run, path: Path, source: str, options: argparse.Namespace
) -> transop.ManifoldAutoencoder:
    """Train identity and coefficient encoder on the operators of a run, unless that is done."""
    changes = [f"identity.source={source}", "classifier.domain=image"]
    if options.epochs is not None:
        changes.append(f"coefficient_encoder.epochs={options.epochs}")
    settings: Settings = run.settings.updated(changes)
    folder = RunFolder(path)
    if not folder.model_file.exists():
        bare = transop.ManifoldAutoencoder.from_pretrained(run.path)
        bare.classifier = bare.coefficient_encoder = bare.identity_facts = None
        later = ("classifier", "coefficient_encoder")
        bare.phases = tuple(phase for phase in bare.phases if phase not in later)
        bare.save_pretrained(path)
        folder.config_file.write_text(settings.to_toml())
    return train(settings, folder, dataset=run.dataset, resume=True)


if __name__ == "__main__":
    main()
