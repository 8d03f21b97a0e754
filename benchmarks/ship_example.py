"""Make an example that is shipped with the package from a trained run.

    transop train mnist-cpu --seed 0 --out runs/mnist
    python benchmarks/ship_example.py runs/mnist mnist

writes src/transop_app/examples/mnist: the weights in half precision, some held-out images, the
settings and results of the run, a thinned curve of every phase and a model card. It refuses a
model whose outputs half precision changes visibly. Ship MNIST and Fashion-MNIST only: other
images may not be passed on.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from transop import ManifoldAutoencoder, Run
from transop.artifacts import RunFolder
from transop.data import ImageDataset
from transop.files import scratch_folder

EXAMPLES = Path(__file__).parents[1] / "src" / "transop_app" / "examples"
PER_CLASS = 60  # held-out images; ten classes make the 600 that the explorer's map shows
MOST_LOSSES = 60  # points of a phase's curve
TOLERANCE = 0.01  # most that half precision may change a pixel, which lies between 0 and 1
LICENCES = {
    "mnist": (
        "MNIST: Yann LeCun, Corinna Cortes and Christopher J. C. Burges. The images are derived "
        "from databases of NIST; distributed under CC BY-SA 3.0."
    ),
    "fashion-mnist": "Fashion-MNIST: Zalando SE, MIT licence.",
}
CARD = """\
# Example model `{name}`

A model of `transop`, trained as in the paper "Learning identity-preserving transformations on
data manifolds" and small enough to ship. Look at it with `transop explore --example {name}`; in
other commands write `example:{name}` in place of a run.

## Training

| | |
|---|---|
| command | `transop train {recipe} --seed {seed}` |
| data | {data} |
| seed | {seed} |
| commit | {commit} |
| hardware | {hardware} |
| training time | {minutes:.0f} minutes |

## Results

Measured by training on the whole held-out splits, before the weights were rounded.

| | |
|---|---|
{results}

Half precision: on the {images} images of this folder no pixel of a reconstruction changed by more
than {pixel:.4f} (0 is black, 1 is white) and the classifier's answer for {changed} of them.

## Files

- `model.safetensors`, `config.json`: the model; weights are stored in half precision and computed
  with in single precision.
- `held-out.npz`: {images} test images, the first {per_class} of every class; training never saw
  them.
- `config.toml`, `data.json`, `environment.json`, `phases.json`, `metrics.jsonl`: settings, data,
  versions, results and loss curves (thinned) of the run.

## Use and limits

For trying out the method and for teaching. The model knows 28 x 28 pixel images of its data set and
nothing else. One seed; docs/reproduction.md compares several.

## Licence

The weights: Apache-2.0, as the rest of `transop`. The images: {licence}
"""
RESULTS = {
    "fine_tuning/test_mse": "reconstruction error (mean squared)",
    "fine_tuning/living": "operators alive, of {n_operators}",
    "classifier/test_accuracy": "accuracy of the run's classifier",
    "coefficient_encoder/kept_encoded_at_0.3": "identity kept at moves of 0.3, coefficient encoder",
    "coefficient_encoder/kept_fixed_at_0.3": "identity kept at moves of 0.3, one fixed scale",
}


def held_out(run: Run) -> ImageDataset:
    """Take the first held-out images of every class, in the order of the data set."""
    images = run.held_out
    assert images.labels is not None, "an example needs labels"
    rows = [np.flatnonzero(images.labels == label)[:PER_CLASS] for label in range(images.n_classes)]
    return images.subset(np.sort(np.concatenate(rows)))


def halved(model: ManifoldAutoencoder, folder: Path) -> ManifoldAutoencoder:
    """Store a model in half precision and read it again."""
    copy.deepcopy(model).half().save_pretrained(folder)
    return ManifoldAutoencoder.from_pretrained(folder)


def compare(one: ManifoldAutoencoder, other: ManifoldAutoencoder, images: Any) -> dict[str, Any]:
    """Measure how far two models differ on images."""
    first, second = one.reconstruct(images), other.reconstruct(images)
    answers = [model.classify(images).argmax(-1) for model in (one, other)]
    return {
        "pixel": float((first - second).abs().max()),
        "changed": int((answers[0] != answers[1]).sum()),
        "images": len(images),
    }


def thin(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep findings and closing lines, and evenly spaced points of every curve."""
    curves: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        if "loss" in record and "finding" not in record:
            curves.setdefault(record["phase"], []).append(number)
    dropped: set[int] = set()
    for numbers in curves.values():
        spread = np.linspace(0, len(numbers) - 1, min(MOST_LOSSES, len(numbers))).round()
        dropped |= set(numbers) - {numbers[int(place)] for place in spread}
    return [record for number, record in enumerate(records) if number not in dropped]


def card(run: Run, name: str, measured: dict[str, Any]) -> str:
    """Write the model card from what the run says about itself."""
    environment, phases = run.environment, run.phases
    lines = []
    for key, words in RESULTS.items():
        phase, _, fact = key.partition("/")
        if (value := phases.get(phase, {}).get(fact)) is not None:
            shown = f"{value:.4f}" if fact == "test_mse" else f"{value:.3g}"
            lines.append(
                f"| {words.format(n_operators=run.model.operators.n_operators)} | {shown} |"
            )
    data = run.data
    assert data is not None, "an example needs data.json"
    sizes = " / ".join(f"{size:,} {split}" for split, size in data.splits.items())
    hardware = (
        f"{environment['cores']} CPU cores, {environment['torch_threads']} thread(s) of torch"
    )
    return CARD.format(
        name=name,
        recipe=run.settings.recipe,
        data=f"{data.source} ({sizes}), content hash `{data.content_hash[:16]}`",
        seed=environment["seed"],
        commit=environment["commit"],
        hardware=hardware,
        minutes=run.seconds / 60,
        results="\n".join(lines),
        licence=LICENCES[data.source],
        per_class=PER_CLASS,
        **measured,
    )


def write_example(run: Run, name: str, folder: Path) -> dict[str, Any]:
    """Write all files of an example into a folder and give what half precision changes."""
    images = held_out(run)
    measured = compare(run.model, halved(run.model, folder), images.batch(slice(None)))
    if measured["pixel"] > TOLERANCE:
        sys.exit(f"half precision changes a pixel by {measured['pixel']:.3f}: not shipped")
    shipped = RunFolder(folder)
    np.savez_compressed(shipped.held_out_file, images=images.images, labels=images.labels)
    for file in ("config_file", "data_file", "environment_file", "phases_file"):
        shutil.copyfile(getattr(run.folder, file), getattr(shipped, file))
    lines = [json.dumps(record) + "\n" for record in thin(run.metrics)]
    shipped.metrics_file.write_text("".join(lines), "utf-8")
    (folder / "README.md").write_text(card(run, name, measured), "utf-8")
    return measured


def main() -> int:
    """Write one example in place of the one that is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a trained run folder")
    parser.add_argument("name", choices=sorted(LICENCES), help="of the example")
    wanted = parser.parse_args()
    run = Run.open(wanted.run)
    if run.data is None or run.data.source != wanted.name:
        parser.error(f"{wanted.run} was not trained on {wanted.name}")
    target = EXAMPLES / wanted.name
    with scratch_folder(EXAMPLES.parent) as scratch:
        measured = write_example(run, wanted.name, scratch / "example")
        shutil.rmtree(target, ignore_errors=True)
        (scratch / "example").rename(target)
    size = sum(file.stat().st_size for file in target.iterdir())
    print(f"{target.name}: {size / 1e6:.2f} MB; half precision: {json.dumps(measured)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
