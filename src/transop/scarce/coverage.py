"""Where is accuracy lost? How much of a class moved images reach, and how many lose its name.

A judge that no row has seen, a LeNet-5 trained on all training labels, looks at the images a row
would train on. *Label errors* are the images it calls by another name. *Coverage* is the share of
validation images that have one of the row's images of their class nearby, in the judge's last
hidden layer: nearer than their fifth neighbour among as many real training images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import ImageDataset
from transop.networks import LeNet
from transop.progress import Progress, silent
from transop.scarce.experiment import Experiment, open_supply
from transop.scarce.protocol import Protocol, draw_labelled, train_network
from transop.scarce.rows import Row

_JUDGE_SEED = 9_001  # no row's network starts from it
_JUDGE = Protocol(n_steps=8_000, batch_size=64, schedule="cosine")
_NEIGHBOUR = 5
_CHUNK = 500


@dataclass(frozen=True)
class Coverage:
    """What the judge says of the images of one row and seed."""

    row: str
    label_errors: float
    coverage: float
    examples: Float[Tensor, "k c h w"]  # one image per class, as the row would train on it


class CoverageStudy:
    """Measures rows against the validation images of one data set.

    Args:
        experiment: the data set and, for learned rows, the run.
        n_images: images a row makes up, and real images they are compared with.
        judge_steps: optimiser steps of the judge; None for the usual number.
        progress: announces long work.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        n_images: int = 20_000,
        judge_steps: int | None = None,
        progress: Progress = silent,
    ) -> None:
        self._experiment, self._n_images, self._progress = experiment, n_images, progress
        data = experiment.dataset
        self._judge = _train_judge(data, judge_steps or _JUDGE.n_steps, progress)
        assert data.labels is not None
        rows = data.splits["validation"]
        self._places, self._names = self._look(data.batch(rows)), data.labels[rows]
        real = data.splits["train"][:n_images]
        places = self._look(data.batch(real))
        self._radii = self._distances(places, data.labels[real], _NEIGHBOUR)

    def measure(self, row: Row, seed: int) -> Coverage:
        """Make up images as a row would train on them, and have them judged."""
        experiment = self._experiment
        images, labels, _ = draw_labelled(experiment.dataset, experiment.protocol.n_per_class, seed)
        supply = open_supply(experiment, row, seed, images, labels, self._progress)
        made, names = supply(self._n_images)
        places, said = self._look(made), self._say(made)
        nearest = self._distances(places, names.numpy(), 1)
        firsts = [int((names == label).nonzero()[0]) for label in np.unique(names.numpy())]
        return Coverage(
            row=row.name,
            label_errors=float((said != names).float().mean()),
            coverage=float((nearest <= self._radii).float().mean()),
            examples=made[firsts],
        )

    @torch.inference_mode()
    def _look(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n f"]:
        """Give the judge's last hidden layer, in which images it treats alike are close."""
        before_logits = self._judge.head[:-1]
        return torch.cat(
            [before_logits(self._judge.features(part)) for part in torch.split(images, _CHUNK)]
        )

    @torch.inference_mode()
    def _say(self, images: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
        return torch.cat([self._judge(part).argmax(1) for part in torch.split(images, _CHUNK)])

    def _distances(
        self, places: Float[Tensor, "n f"], names: Int[np.ndarray, " n"], neighbour: int
    ) -> Float[Tensor, " v"]:
        """Measure how far validation images are from their n-th neighbour of the same class."""
        found = torch.full((len(self._names),), torch.inf)
        for label in np.unique(self._names):
            ours = torch.from_numpy(np.flatnonzero(self._names == label))
            theirs = places[torch.from_numpy(np.flatnonzero(names == label))]
            if len(theirs) < neighbour:
                continue
            for part in torch.split(ours, _CHUNK):
                distance = torch.cdist(self._places[part], theirs)
                found[part] = distance.kthvalue(neighbour, dim=1).values
        return found


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
