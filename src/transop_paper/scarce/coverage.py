"""Where is accuracy lost? To what moved images do not reach, and to those with a wrong name.

Validation images are named after the closest image a row would train on, pixel by pixel. A judge
that no row has seen, a LeNet-5 trained on all training labels, says which of the row's images have
lost their name. *Missed* are validation images named wrongly even when those are left out: nothing
rightly named is close. *Misled* are the further ones that wrong names cost. The judge's errors on
real images count as wrong names too; the row "none" shows how many they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import ImageDataset
from transop.networks import LeNet
from transop.progress import Progress, silent
from transop_paper.scarce.experiment import Experiment, open_supply
from transop_paper.scarce.protocol import Protocol, draw_labelled, train_network
from transop_paper.scarce.rows import Row

_JUDGE_SEED = 9_001  # no row's network starts from it
_JUDGE = Protocol(n_steps=8_000, batch_size=64, schedule="cosine")
_CHUNK = 500


@dataclass(frozen=True)
class Coverage:
    """What becomes of the validation images when the images of one row and seed name them."""

    row: str
    label_errors: float  # share of the row's images that the judge calls by another name
    missed: float  # share of validation images
    misled: float  # share of validation images; below zero if wrong names did more good than harm
    examples: Float[Tensor, "k c h w"]  # one image per class, as the row would train on it


class CoverageStudy:
    """Measures rows against the validation images of one data set.

    Args:
        experiment: the data set and, for learned rows, the run.
        n_images: images a row makes up.
        n_named: validation images they name.
        judge_steps: optimiser steps of the judge; None for the usual number.
        progress: announces long work.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        n_images: int = 20_000,
        n_named: int = 5_000,
        judge_steps: int | None = None,
        progress: Progress = silent,
    ) -> None:
        self._experiment, self._n_images, self._progress = experiment, n_images, progress
        data = experiment.dataset
        self._judge = _train_judge(data, judge_steps or _JUDGE.n_steps, progress)
        assert data.labels is not None
        rows = data.splits["validation"][:n_named]
        self._pixels = data.batch(rows).flatten(1)
        self._names = torch.from_numpy(data.labels[rows])

    def measure(self, row: Row, seed: int) -> Coverage:
        """Make up images as a row would train on them, and let them name validation images."""
        experiment = self._experiment
        images, labels, _ = draw_labelled(experiment.dataset, experiment.protocol.n_per_class, seed)
        supply = open_supply(experiment, row, seed, images, labels, self._progress)
        made, names = supply(self._n_images)
        right = self._say(made) == names
        missed = self._errors(made[right], names[right])
        firsts = [int((names == label).nonzero()[0]) for label in set(names.tolist())]
        return Coverage(
            row=row.name,
            label_errors=1 - float(right.float().mean()),
            missed=missed,
            misled=self._errors(made, names) - missed,
            examples=made[firsts],
        )

    @torch.inference_mode()
    def _say(self, images: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
        return torch.cat([self._judge(part).argmax(1) for part in torch.split(images, _CHUNK)])

    @torch.inference_mode()
    def _errors(self, images: Float[Tensor, "n c h w"], names: Int[Tensor, " n"]) -> float:
        """Give the share of validation images whose closest image carries another name."""
        pixels = images.flatten(1)
        said = [
            names[torch.cdist(part, pixels).argmin(1)] for part in torch.split(self._pixels, _CHUNK)
        ]
        return float((torch.cat(said) != self._names).float().mean())


def _train_judge(data: ImageDataset, n_steps: int, progress: Progress) -> LeNet:
    """Train a network on all training labels, from weights and batches no row has."""
    rows, generator = data.splits["train"], torch.Generator().manual_seed(_JUDGE_SEED)

    def supply(n: int) -> tuple[Tensor, Tensor]:
        chosen = rows[torch.randint(len(rows), (n,), generator=generator).numpy()]
        assert data.labels is not None
        return data.batch(chosen), torch.from_numpy(data.labels[chosen])

    return train_network(
        supply,
        replace(_JUDGE, n_steps=n_steps),
        image_shape=data.image_shape,
        n_classes=data.n_classes,
        seed=_JUDGE_SEED,
        progress=progress,
        description="judge of coverage",
    )
