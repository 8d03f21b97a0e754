"""What figures are computed from: a run, its images, the runs it is compared with, a judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.artifacts import RunFolder
from transop.config import Settings
from transop.data import ImageDataset
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop_paper.baselines import Baseline

Scale = Literal["quick", "full"]
Companion = ManifoldAutoencoder | Baseline


@dataclass
class Material:
    """Everything a figure may look at.

    Attributes:
        run: the folder of the run the figures are about.
        settings: the run's settings.
        model: what it trained.
        dataset: the images it was trained on.
        find_companion: trains or loads the run of a given name that ours is compared with.
        find_judge: gives the classifier of images that scores all methods alike.
        scale: how much to compute.
        progress: announces long work.
    """

    run: RunFolder
    settings: Settings
    model: ManifoldAutoencoder
    dataset: ImageDataset
    find_companion: Callable[[str], Companion]
    find_judge: Callable[[], Callable[[Tensor], Tensor]]
    scale: Scale = "quick"
    progress: Progress = silent
    _companions: dict[str, Companion] = field(default_factory=dict)

    def companion(self, name: str) -> Any:
        """Give a model of the comparison by name; each is found once."""
        if name not in self._companions:
            with torch.enable_grad():  # it may have to be trained first
                self._companions[name] = self.find_companion(name)
        return self._companions[name]

    @cached_property
    def judge(self) -> Callable[[Tensor], Tensor]:
        """The classifier that names decoded images."""
        return self.find_judge()

    def generator(self, purpose: str) -> torch.Generator:
        """Make a source of randomness; the same purpose gives the same numbers."""
        seed = self.settings.runtime.seed * 1000 + sum(purpose.encode())
        return torch.Generator().manual_seed(seed)

    def sized(self, quick: int, full: int) -> int:
        """Choose how many by the scale."""
        return quick if self.scale == "quick" else full

    @cached_property
    def held_out(self) -> np.ndarray:
        """Rows of images that were not trained on, where the data set has some."""
        splits = self.dataset.splits
        return next(splits[name] for name in ("test", "validation", "train") if name in splits)

    def examples(self) -> np.ndarray:
        """Choose one held-out image per class, at most ten; without labels the first four.

        Of each class, the image whose latent is closest to the class's mean: a typical one.
        """
        rows = self.held_out[:2000]
        if self.dataset.labels is None:
            return rows[:4]
        latents = self.model.encode(self.dataset.batch(rows)).cpu()
        labels = self.dataset.labels[rows]
        chosen = []
        for label in np.unique(labels)[:10]:
            members = np.flatnonzero(labels == label)
            distance = (latents[members] - latents[members].mean(0)).norm(dim=1)
            chosen.append(rows[members[int(distance.argmin())]])
        return np.array(chosen)

    def class_names(self) -> list[str]:
        """Name the classes, by number where they have no names; empty without labels."""
        if self.dataset.labels is None:
            return []
        names = self.dataset.meta.class_names
        return list(names or (str(label) for label in range(self.dataset.n_classes)))

    def latents(self, rows: np.ndarray) -> Float[Tensor, "n d"]:
        """Encode images of the data set, in scaled units."""
        chunks = [rows[i : i + 1000] for i in range(0, len(rows), 1000)]
        return torch.cat([self.model.encode(self.dataset.batch(chunk)) for chunk in chunks])

    def living_operators(self) -> list[int]:
        """List the operators that training left in use, the largest first."""
        magnitudes = self.model.operators.magnitudes().detach()
        alive = self.model.operators.living()
        order = magnitudes.argsort(descending=True).tolist()
        return [m for m in order if bool(alive[m])]


def as_array(tensor: Tensor) -> np.ndarray:
    """Bring a tensor to a NumPy array for storing."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
