"""Describe images in several ways at once, so that neighbours are alike in all of them."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from transop.data import ImageDataset, cache_folder
from transop.extras import missing_modules
from transop.model import ManifoldAutoencoder
from transop.pairs import BACKBONES, extract_features, input_size_for
from transop.progress import Progress, silent

_AT_ONCE = 1_000
_N_PIXELS, _N_PERCEPTUAL = 64, 128  # principal components that are kept
_LEAST_VARIANCE = 1e-6  # of a component, relative to the largest


def joint_features(
    dataset: ImageDataset,
    model: ManifoldAutoencoder | None,
    fitted_on: Int[np.ndarray, " m"],
    *,
    progress: Progress = silent,
) -> Float[Tensor, "n f"]:
    """Describe all images of a data set by latents, pixels and perceptual features together.

    Pixels are reduced to principal components; perceptual features (EfficientNet-Lite0) too, half
    whitened and brought to unit length. Each kind is centred and scaled to a mean square of one.
    No label is read. Perceptual features are left out if their package is not installed, latents
    if there is no model.

    Args:
        dataset: the images.
        model: gives the latents.
        fitted_on: rows from which means, components and scales are computed.
        progress: announces long work.
    """
    rows = torch.arange(len(dataset))
    parts = torch.split(rows, _AT_ONCE)
    kinds = []
    if model is not None:
        kinds.append(torch.cat([model.encode(dataset.batch(part)).cpu() for part in parts]))
    pixels = torch.cat([dataset.batch(part).flatten(1) for part in parts])
    kinds.append(_principal(pixels, fitted_on, _N_PIXELS))
    if not missing_modules("perceptual"):
        size = input_size_for(dataset.image_shape[1])
        extractor = BACKBONES["auto"](size, None, cache_folder())
        found = extract_features(dataset, rows, extractor, progress=progress).float()
        found = _principal(found, fitted_on, _N_PERCEPTUAL, whitening=0.5)
        kinds.append(normalize(found, dim=1))
    return torch.cat([_standard(kind, fitted_on) for kind in kinds], 1)


def _principal(
    table: Float[Tensor, "n f"],
    fitted_on: Int[np.ndarray, " m"],
    n_components: int,
    *,
    whitening: float = 0.0,
) -> Float[Tensor, "n k"]:
    """Keep the directions of largest variance; whitening of 1 makes their variances equal.

    Directions without variance are left out: few images have fewer directions than numbers.
    """
    mean = table[fitted_on].mean(0)
    variances, directions = _directions(table[fitted_on] - mean)
    variances, directions = variances[-n_components:], directions[:, -n_components:]
    kept = variances >= _LEAST_VARIANCE * variances[-1]
    scales = variances[kept].clamp_min(1e-9) ** (-whitening / 2)
    scaled: Tensor = (table - mean) @ (directions[:, kept] * scales)
    return scaled


def _directions(centred: Float[Tensor, "m f"]) -> tuple[Tensor, Tensor]:
    """Give the variances of a table, in ascending order, and their directions as columns."""
    n, width = centred.shape
    if n > width:
        # Equal variances can make this fail; what follows is slower and does not fail.
        with contextlib.suppress(RuntimeError):
            found: tuple[Tensor, Tensor] = torch.linalg.eigh(centred.mT @ centred / n)
            return found
    _, singular, rows = torch.linalg.svd(centred.double(), full_matrices=False)
    return (singular.square() / n).flip(0).to(centred), rows.flip(0).mT.to(centred)


def _standard(
    table: Float[Tensor, "n f"], fitted_on: Int[np.ndarray, " m"]
) -> Float[Tensor, "n f"]:
    centred = table - table[fitted_on].mean(0)
    scale = centred[fitted_on].square().sum(1).mean().sqrt().clamp_min(1e-12)
    scaled: Tensor = centred / scale
    return scaled
