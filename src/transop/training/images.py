"""The images a run is trained on, as its settings describe them."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from transop.config import Settings
from transop.data import ImageDataset, load_dataset, require_trainable
from transop.errors import DataError
from transop.progress import Progress, silent

logger = logging.getLogger(__name__)

_SMALLEST, _LARGEST, _USUAL = 16, 128, 64  # pixels our autoencoders take, and a good size


def load_run_data(
    settings: Settings, *, dataset: ImageDataset | None = None, progress: Progress = silent
) -> ImageDataset:
    """Load the images a run is trained on, as its settings describe them.

    Args:
        settings: of the run.
        dataset: takes the place of ``data.source``; size, channels and limit still apply.
        progress: announces long work.
    """
    wanted = settings.data
    images = load_dataset(
        wanted.source if dataset is None else dataset,
        image_size=wanted.image_size,
        channels=wanted.channels,
        progress=progress,
    )
    if wanted.image_size is None and not _SMALLEST <= images.image_size <= _LARGEST:
        size = _SMALLEST if images.image_size < _SMALLEST else _USUAL
        logger.warning(
            "images of %d pixels are resized to %d (data.image_size chooses another size)",
            images.image_size,
            size,
        )
        images = load_dataset(images, image_size=size)
    if wanted.limit is not None and wanted.limit < len(images.splits["train"]):
        fewer = {**images.splits, "train": np.sort(images.splits["train"])[: wanted.limit]}
        images = replace(images, splits=fewer)
    require_trainable(images)
    _require_enough_data(settings.autoencoder.latent_dimension, images)
    return images


def _require_enough_data(latent_dimension: int, images: ImageDataset) -> None:
    """Refuse more latent dimensions than there are pixels, or than images to fill them."""
    n_values, n_images = int(np.prod(images.image_shape)), len(images.splits["train"])
    if latent_dimension > min(n_values, n_images):
        scarce = f"{n_images} training images" if n_images < n_values else f"{n_values} pixels"
        raise DataError(
            f"autoencoder.latent_dimension = {latent_dimension} is larger than the data "
            f"({scarce}): such latents compress nothing; use at most {min(n_values, n_images)}"
        )
