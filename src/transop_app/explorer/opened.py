"""A run that people look at in the browser: its held-out images, and how far its sliders go."""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.data import ImageDataset, spread_out
from transop.errors import UserError
from transop.run import Run

logger = logging.getLogger(__name__)

_LOOKED_AT = 600  # held-out images that stand for all of them
# Nine of ten Laplace draws lie within this many scales.
NINE_IN_TEN = float(np.log(10.0))


class ExploredRun(Run):
    """A run with what the page needs besides.

    Images that cannot be had are no error: the page then works with uploads and drawings.

    Attributes:
        missing: why there are no images; empty if there are.
    """

    missing = ""

    @classmethod
    def open(cls, path: str | Path, *, data: Any = None, **options: Any) -> Self:
        """Open a run for looking at; a run without living operators is refused."""
        run = super().open(path, data=data, offline=True, **options)
        run.require_phase("operators")
        if not run.living_operators:
            raise UserError(f"no operator in '{path}' is alive; train it with less operator_decay")
        if run.images is None and data is not None:
            raise UserError(run.missing)
        return run

    @cached_property
    def images(self) -> ImageDataset | None:
        """The held-out images, or None if they cannot be had."""
        try:
            return self.held_out
        except UserError as error:
            self.missing = f"The run's images cannot be shown: {error}."
            logger.warning("%s", self.missing)
            return None

    @cached_property
    def shown_rows(self) -> np.ndarray:
        """Held-out images that stand for all of them."""
        return spread_out(self.rows(), _LOOKED_AT)

    @cached_property
    def shown_latents(self) -> Float[Tensor, "n d"] | None:
        """Latent points of these images, or None without images."""
        images = self.images
        return None if images is None else self.model.encode(images.batch(self.shown_rows))

    @cached_property
    def reach(self) -> list[float]:
        """How far each living operator's slider goes: about half a latent length."""
        points = self.shown_latents
        if points is None:
            generator = torch.Generator().manual_seed(0)
            points = torch.randn(64, self.model.latent_dimension, generator=generator)
            points = points.to(self.model.device)
        matrices = self.model.operators.operators.detach()[self.living_operators]
        speeds = torch.einsum("mij,bj->bmi", matrices, points).norm(dim=2)
        relative = speeds / points.norm(dim=1, keepdim=True).clamp_min(1e-9)
        return [float(f"{0.5 / max(float(speed), 1e-3):.2g}") for speed in relative.mean(0)]

    @property
    def has_labels(self) -> bool:
        """Whether the held-out images can be chosen by class."""
        return self.images is not None and self.images.labels is not None

    def rows(self, label: int | None = None) -> np.ndarray:
        """Give the rows of the held-out images of a class, or of all."""
        if self.images is None:
            raise UserError(self.missing)
        if label is None or self.images.labels is None:
            return np.arange(len(self.images))
        return np.flatnonzero(self.images.labels == label)

    def example(self, label: int | None, number: int) -> Float[Tensor, "c h w"]:
        """Take the image with a number, counted from 1, among those of a class, or of all."""
        rows = self.rows(label)
        if len(rows) == 0 or self.images is None:
            raise UserError(f"class {label} has no held-out image; choose another class")
        if not 1 <= number <= len(rows):
            raise UserError(f"number {number} is not between 1 and {len(rows)}")
        return self.images.batch(rows[number - 1 : number])[0]
