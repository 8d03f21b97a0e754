"""Numbers on held-out images that say how well a phase went."""

from __future__ import annotations

import numpy as np
import torch

from transop.data import ImageDataset
from transop.evaluation import PathModel, measure_kept_identity, reconstruction_error
from transop.model import ManifoldAutoencoder

_MOST_IMAGES = 10_000


def held_out_rows(dataset: ImageDataset) -> np.ndarray:
    """Choose the images to measure on: test, else validation, else the training images."""
    for split in ("test", "validation", "train"):
        if split in dataset.splits:
            return dataset.splits[split][:_MOST_IMAGES]
    raise AssertionError("a data set has at least one split")


def measure_reconstruction(model: PathModel, dataset: ImageDataset) -> dict[str, float]:
    """Measure the mean squared error per pixel of held-out reconstructions."""
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


def measure_sampling(
    model: ManifoldAutoencoder, dataset: ImageDataset, generator: torch.Generator
) -> dict[str, float]:
    """Compare sampled moves with encoded scales and with the fixed prior.

    Returns:
        For both, the share of moves after which the classifier keeps its opinion, and the mean
        relative move |dz| / |z|.
    """
    rows = held_out_rows(dataset)
    chunks = [dataset.batch(rows[i : i + 1000]) for i in range(0, len(rows), 1000)]
    latents = torch.cat([model.encode(images) for images in chunks])
    fixed = latents.new_full((len(latents), model.operators.n_operators), model.prior_scale)
    rivals = {"encoded": model.scales_at(latents), "prior": fixed}
    numbers = {}
    for name, scales in rivals.items():
        result = measure_kept_identity(
            model.operators.operators.detach(),
            latents,
            scales,
            model.classify_latents,
            generator=generator,
        )
        numbers[f"kept_label_{name}"] = result.kept
        numbers[f"relative_move_{name}"] = result.relative_move
    return numbers
