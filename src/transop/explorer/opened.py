"""A run held open for looking at: its model, its held-out images, its operators in order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import ImageDataset, load_dataset
from transop.errors import UserError
from transop.model import ManifoldAutoencoder

logger = logging.getLogger(__name__)

_LOOKED_AT = 600  # held-out images that stand for all of them
# Nine of ten Laplace draws lie within this many scales.
NINE_IN_TEN = float(np.log(10.0))


@dataclass(eq=False)
class OpenRun:
    """A run that people are looking at.

    Attributes:
        folder: where it lies.
        model: what it learned.
        dataset: its held-out images, or None if they cannot be had.
        missing: why there are no images; empty if there are.
    """

    folder: RunFolder
    model: ManifoldAutoencoder
    dataset: ImageDataset | None = None
    missing: str = ""
    _rows: dict[int | None, np.ndarray] = field(default_factory=dict, repr=False)

    @cached_property
    def operators(self) -> list[int]:
        """Numbers of the living operators, strongest first."""
        strength = self.model.operators.magnitudes().detach().cpu()
        living = self.model.operators.living().cpu()
        return [int(m) for m in strength.argsort(descending=True) if living[m]]

    @cached_property
    def latents(self) -> Float[Tensor, "n d"] | None:
        """Latent points of the first held-out images, or None without images."""
        if self.dataset is None:
            return None
        return self.model.encode(self.dataset.batch(slice(0, _LOOKED_AT)))

    @cached_property
    def reach(self) -> list[float]:
        """How far each living operator's slider goes: about half a latent length."""
        points = self.latents
        if points is None:
            generator = torch.Generator().manual_seed(0)
            points = torch.randn(64, self.model.latent_dimension, generator=generator)
            points = points.to(self.model.device)
        matrices = self.model.operators.operators.detach()[self.operators]
        speeds = torch.einsum("mij,bj->bmi", matrices, points).norm(dim=2)
        relative = speeds / points.norm(dim=1, keepdim=True).clamp_min(1e-9)
        return [float(f"{0.5 / max(float(speed), 1e-3):.2g}") for speed in relative.mean(0)]

    @property
    def class_names(self) -> list[str]:
        """What the classes are called; empty without classes."""
        if self.model.class_names is not None:
            return list(self.model.class_names)
        if self.dataset is None or self.dataset.labels is None:
            return []
        named = self.dataset.meta.class_names
        return list(named) if named else [str(k) for k in range(self.dataset.n_classes)]

    @property
    def has_labels(self) -> bool:
        """Whether the held-out images can be chosen by class."""
        return self.dataset is not None and self.dataset.labels is not None

    def rows(self, label: int | None = None) -> np.ndarray:
        """Give the rows of the held-out images of a class, or of all."""
        if self.dataset is None:
            raise UserError(self.missing)
        if label not in self._rows:
            labels = self.dataset.labels
            everything = np.arange(len(self.dataset))
            chosen = everything if label is None or labels is None else labels == label
            self._rows[label] = everything[chosen]
        return self._rows[label]

    def example(self, label: int | None, number: int) -> Float[Tensor, "c h w"]:
        """Take the image with a number, counted from 1, among those of a class, or of all."""
        rows = self.rows(label)
        if len(rows) == 0 or self.dataset is None:
            raise UserError(f"class {label} has no held-out image; choose another class")
        if not 1 <= number <= len(rows):
            raise UserError(f"number {number} is not between 1 and {len(rows)}")
        return self.dataset.batch(rows[number - 1 : number])[0]


def open_run(path: str | Path) -> OpenRun:
    """Load a run's model and its held-out images.

    Images that cannot be had are no error: the page then works with uploads and drawings.

    Args:
        path: a run folder, or a folder ``save_pretrained`` wrote.
    """
    folder = RunFolder(Path(path))
    if not folder.path.is_dir():
        raise UserError(f"RUN '{path}' is not a folder; name one that 'transop train' wrote")
    model = ManifoldAutoencoder.from_pretrained(folder.path)
    if "operators" not in model.phases:
        raise UserError(f"the run in '{path}' has learned no operators yet; train it further")
    try:
        dataset, missing = _held_out(folder, model), ""
    except UserError as error:
        dataset, missing = None, f"The run's images cannot be shown: {error}."
        logger.warning("%s", missing)
    opened = OpenRun(folder, model, dataset, missing)
    if not opened.operators:
        raise UserError(f"no operator in '{path}' is alive; train it with less operator_decay")
    return opened


def _held_out(folder: RunFolder, model: ManifoldAutoencoder) -> ImageDataset:
    if not folder.config_file.exists():
        raise UserError(f"the folder has no {folder.config_file.name} that would name a data set")
    data = load_settings(folder.config_file).data
    channels, size, _ = model.image_shape
    dataset = load_dataset(data.source, image_size=size, channels=channels, offline=True)
    split = next(name for name in ("test", "validation", "train") if name in dataset.splits)
    return dataset.subset(split)
