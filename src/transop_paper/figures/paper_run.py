"""What figures are computed from: a run, the runs it is compared with, and one classifier."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from transop.data import with_source
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.pairs import PairSource
from transop.plotting import COLOURS, MUTED
from transop.run import Run
from transop.training import pairs_by_settings
from transop_paper.figures.companions import (
    COMPANIONS,
    Companion,
    find_image_classifier,
    load_companion,
    train_companion,
)

Scale = Literal["quick", "full"]

# The methods of the comparisons: their names and colours, the same in every figure.
OUR_METHOD = "mae"
METHOD_NAMES = {
    OUR_METHOD: "transport operators",
    "ae": "autoencoder",
    "cae": "contractive AE",
    "beta-vae": "beta-VAE",
}
METHOD_COLOURS = {
    OUR_METHOD: COLOURS[0],
    "ae": MUTED,
    "cae": COLOURS[1],
    "beta-vae": COLOURS[2],
}


class PaperRun(Run):
    """A trained run with what figures compare it with.

    Attributes:
        scale: how much the figures compute.
        given: companions that live elsewhere, by name.
    """

    scale: Scale = "quick"
    given: Mapping[str, Path] = {}

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        scale: Scale = "full",
        companions: Mapping[str, Path] | None = None,
        **options: Any,
    ) -> Self:
        """Open a run of our method for its figures.

        ``companions`` are runs to compare with that live elsewhere, by name.
        """
        unknown = set(companions or {}) - set(COMPANIONS)
        if unknown:
            raise UserError(f"companion '{unknown.pop()}' is unknown; use {', '.join(COMPANIONS)}")
        run = super().open(path, **options)
        run.scale, run.given = scale, dict(companions or {})
        return run

    @cached_property
    def _companions(self) -> dict[str, Companion]:
        return {}

    def companion(self, name: str) -> Any:
        """Give a model of the comparison by name; each is found once, trained if need be."""
        if name == OUR_METHOD:
            return self.model
        if name not in self._companions:
            with torch.enable_grad():
                if name in self.given:
                    self._companions[name] = load_companion(self.given[name], self.data)
                else:
                    settings, data = self.settings, self.data
                    self._companions[name] = train_companion(
                        self.path / "companions",
                        settings if data is None else with_source(settings, data.source),
                        name,
                        data=data,
                        dataset=self.given_data,
                        progress=self.progress,
                    )
        return self._companions[name]

    @cached_property
    def image_classifier(self) -> Callable[[Tensor], Tensor]:
        """The classifier that names decoded images, the same for every method."""
        return find_image_classifier(self)

    def pairs(self, strategy: str) -> PairSource:
        """Build the pairs of the training images under a strategy."""
        # Latents before fine-tuning are what a run with latent pairs would have seen.
        network = self.companion("ae").network
        settings = self.settings.pairs.model_copy(update={"strategy": strategy})
        return pairs_by_settings(settings, network, self.dataset, progress=self.progress)

    def models_by_pairs(self) -> dict[str, ManifoldAutoencoder]:
        """Give our model and the one learned from latent pairs, by the strategy of their pairs."""
        return {self.settings.pairs.strategy: self.model, "latent": self.companion("latent-pairs")}

    def sized(self, quick: int, full: int) -> int:
        """Choose how many by the scale."""
        return quick if self.scale == "quick" else full

    def examples(self) -> np.ndarray:
        """Choose one held-out image per class, at most ten; without labels the first four.

        Of each class, the image whose latent is closest to the class's mean: a typical one.
        """
        rows = self.held_out_rows[:2000]
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


def as_array(tensor: Tensor) -> np.ndarray:
    """Bring a tensor to a NumPy array for storing."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
