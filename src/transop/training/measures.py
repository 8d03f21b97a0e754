"""Numbers on held-out images that say how well a phase went."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from transop.data import ImageDataset
from transop.evaluation import (
    LENGTHS,
    PathModel,
    measure_kept_curves,
    measure_kept_identity,
    reconstruction_error,
)
from transop.model import ManifoldAutoencoder

_MOST_IMAGES = 10_000
_USUAL_LENGTH = 0.3  # at which sources of scales are compared in one number


def held_out_rows(dataset: ImageDataset) -> np.ndarray:
    """Choose the images to measure on: test, else validation, else the training images."""
    return dataset.splits[dataset.held_out_split][:_MOST_IMAGES]


def measure_reconstruction(model: PathModel, dataset: ImageDataset) -> dict[str, float]:
    """Measure the mean squared error per pixel of held-out reconstructions."""
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


def measure_moves(
    model: ManifoldAutoencoder, dataset: ImageDataset, generator: torch.Generator
) -> dict[str, Any]:
    """Measure how often moves with encoded scales keep identity, and how far they go.

    One fixed scale that makes moves of the same length always stands beside them. Both are
    measured at the encoder's own mean length of move, at a length of 0.3, and as curves.
    """
    rows = held_out_rows(dataset)
    chunks = [dataset.batch(rows[i : i + 1000]) for i in range(0, len(rows), 1000)]
    latents = torch.cat([model.encode(images) for images in chunks])
    scales, operators = model.scales_at(latents), model.operators.operators.detach()
    own = measure_kept_identity(
        operators, latents, scales, model.classify_latents, generator=generator
    )
    lengths = (own.relative_move, *LENGTHS)
    encoded, fixed = measure_kept_curves(
        operators,
        latents,
        {"coefficient encoder": scales},
        model.classify_latents,
        lengths=lengths,
        generator=generator,
    )
    usual = lengths.index(_USUAL_LENGTH)
    return {
        "kept_encoded": encoded.kept[0],
        "kept_fixed": fixed.kept[0],
        "move_length": encoded.length[0],
        "coverage": encoded.coverage[0],
        "kept_encoded_at_0.3": encoded.kept[usual],
        "kept_fixed_at_0.3": fixed.kept[usual],
        "curves": [curve.as_dict() for curve in (encoded, fixed)],
    }
