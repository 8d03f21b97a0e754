"""Measure where accuracy is lost, for each augmentation: to missing images or to wrong labels.

    python benchmarks/coverage_study.py RUN --json FILE --picture FILE

Every validation image takes the label of the closest image, pixel by pixel, that a row would
train on. A reference classifier that no row has seen, a LeNet-5 trained on all training labels,
tells which of the row's images no longer show their label. *Missed* are validation images that get
a wrong label even when those images are left out: no rightly labelled image is close. *Misled* are
the additional errors when they are put back. The reference classifier errs on real images too; the
row "none" shows how often.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.artifacts import write_json
from transop.networks import LeNet
from transop.plotting import COLOURS, Block, draw_block, look, new_figure
from transop_paper.scarce.experiment import Experiment, make_training_images, open_experiment
from transop_paper.scarce.protocol import Protocol, draw_labelled
from transop_paper.scarce.rows import Row, find_rows

ROWS = [
    ("none", "as they are"),
    ("elastic", "elastic"),
    ("transport-prior", "fixed prior"),
    ("transport-encoder@multiplier=0.5", "encoder, half the scale"),
    ("transport-encoder", "encoder"),
    ("noise-encoder", "noise as long (control)"),
    ("transport-encoder@multiplier=2", "encoder, twice the scale"),
    ("transport-encoder@n_steps=10", "encoder, ten steps"),
    ("transport-guarded@multiplier=2,n_steps=1", "guard, twice the scale"),
    ("transport-guarded", "guard, ten steps"),
    ("noise-guarded", "noise as long, same guard (control)"),
]

_REFERENCE_SEED = 9_001  # no row's network starts from it
_CHUNK = 500


@dataclass(frozen=True)
class Coverage:
    """How well the training images of one row and seed label the validation images."""

    row: str
    label_errors: float  # share of the row's images that the reference classifier labels otherwise
    missed: float  # share of validation images
    misled: float  # share of validation images; negative if wrong labels did more good than harm
    examples: Float[Tensor, "k c h w"]  # one image per class, as the row would train on it


class CoverageStudy:
    """Measures rows against the validation images of one data set.

    ``n_images`` training images are made for each row, which label ``n_validation`` images.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        n_images: int = 20_000,
        n_validation: int = 5_000,
        reference_steps: int = 8_000,
    ) -> None:
        self._experiment, self._n_images = experiment, n_images
        data = experiment.dataset
        self._reference = _train_reference(experiment, reference_steps)
        assert data.labels is not None
        rows = data.splits["validation"][:n_validation]
        self._pixels = data.batch(rows).flatten(1)
        self._truth = torch.from_numpy(data.labels[rows])

    def measure(self, row: Row, seed: int) -> Coverage:
        """Make images as a row would train on them, and label validation images by them."""
        experiment = self._experiment
        images, labels, _ = draw_labelled(experiment.dataset, experiment.protocol.n_per_class, seed)
        make = make_training_images(experiment, row, seed, images, labels)
        made, made_labels = make(self._n_images)
        right = self._classify(made) == made_labels
        missed = self._errors(made[right], made_labels[right])
        firsts = [int((made_labels == label).nonzero()[0]) for label in set(made_labels.tolist())]
        return Coverage(
            row=row.name,
            label_errors=1 - float(right.float().mean()),
            missed=missed,
            misled=self._errors(made, made_labels) - missed,
            examples=made[firsts],
        )

    @torch.inference_mode()
    def _classify(self, images: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
        return torch.cat([self._reference(part).argmax(1) for part in torch.split(images, _CHUNK)])

    @torch.inference_mode()
    def _errors(self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> float:
        """Give the share of validation images whose closest image has another label."""
        pixels = images.flatten(1)
        guesses = [
            labels[torch.cdist(part, pixels).argmin(1)]
            for part in torch.split(self._pixels, _CHUNK)
        ]
        return float((torch.cat(guesses) != self._truth).float().mean())


def _train_reference(experiment: Experiment, n_steps: int) -> LeNet:
    """Train a network on all training labels, from weights and batches no row has."""
    data, protocol = experiment.dataset, Protocol(n_steps=n_steps, batch_size=64)
    rows, generator = data.splits["train"], torch.Generator().manual_seed(_REFERENCE_SEED)

    def draw(n: int) -> tuple[Tensor, Tensor]:
        chosen = rows[torch.randint(len(rows), (n,), generator=generator).numpy()]
        assert data.labels is not None
        return data.batch(chosen), torch.from_numpy(data.labels[chosen])

    return experiment.train(draw, _REFERENCE_SEED, "reference classifier", protocol)


def draw(points: list[dict], examples: torch.Tensor, titles: list[str]):
    """Draw both kinds of loss as bars at the left, images of every row at the right."""
    with look():
        figure = new_figure(10.5, 4.2)
        axes = figure.add_subplot(1, 2, 1)
        places = range(len(points))
        missed = [100 * point["missed"] for point in points]
        misled = [100 * max(point["misled"], 0) for point in points]
        axes.barh(places, missed, color=COLOURS[0], label="no rightly labelled image is close")
        axes.barh(places, misled, left=missed, color=COLOURS[1], label="misled by wrong labels")
        axes.set_yticks(places, [point["title"] for point in points])
        axes.invert_yaxis()
        axes.set_xlabel("validation images with another label than the closest image, %")
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        right = figure.add_subplot(1, 2, 2)
        draw_block(right, Block(examples.numpy(), row_labels=tuple(titles)))
    return figure


def main() -> None:
    """Measure every row over some seeds and write numbers and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True, help="gets the numbers")
    parser.add_argument("--picture", type=Path, required=True, help="gets bars and examples")
    wanted = parser.parse_args()
    protocol = Protocol(pool_size=20_000, real_share=0.0)
    experiment = open_experiment(wanted.json.with_suffix(""), protocol, run=wanted.run)
    study = CoverageStudy(experiment)
    points, examples, titles = [], [], []
    for name, title in ROWS:
        (row,) = find_rows([name], experiment.dataset.meta.name)
        found: list[Coverage] = [study.measure(row, seed) for seed in range(wanted.seeds)]
        points.append(
            {
                "row": name,
                "title": title,
                "label errors": round(mean(one.label_errors for one in found), 4),
                "missed": round(mean(one.missed for one in found), 4),
                "misled": round(mean(one.misled for one in found), 4),
            }
        )
        print(json.dumps(points[-1]), flush=True)
        examples.append(found[0].examples)
        titles.append(title)
    write_json(wanted.json, {"seeds": wanted.seeds, "rows": points})
    wanted.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(points, torch.stack(examples), titles).savefig(wanted.picture, dpi=110)


if __name__ == "__main__":
    main()
