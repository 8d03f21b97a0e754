"""Train the methods we compare with, through the same loop, folder and checkpoints as ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.baselines import BASELINES, Baseline
from transop.config import Settings
from transop.data import ImageDataset
from transop.evaluation import reconstruction_error
from transop.training.autoencoder import train_autoencoder
from transop.training.measures import held_out_rows
from transop.training.session import Session

_CHUNK = 500


def first_or_saved_baseline(session: Session, dataset: ImageDataset) -> Baseline:
    """Load the run's model, or build the untrained one its settings describe."""
    settings = session.settings
    kind = BASELINES[settings.method]
    if (session.folder.path / "model.safetensors").exists():
        return kind.from_pretrained(session.folder.path, device=session.device)
    with session.seeded("weights", "autoencoder"):
        model = kind.build(
            _numbers(settings),
            name=settings.autoencoder.network,
            image_size=dataset.image_size,
            channels=dataset.n_channels,
            latent_dimension=settings.autoencoder.latent_dimension,
            width=settings.autoencoder.width,
        )
    model.class_names = dataset.meta.class_names
    return model.to(session.device)


def autoencoder_phase(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Minimise the baseline's own loss on the training images.

    Returns:
        The held-out squared error per pixel.
    """
    train_autoencoder(session, model, dataset, loss=_own_loss)
    model.measure_latents(_latents(model, dataset))
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


# Which phases a baseline goes through; ours are in ``fit``.
BASELINE_PHASES: dict[str, Callable[[Session, Any, ImageDataset], dict[str, Any]]] = {
    "autoencoder": autoencoder_phase
}


def _numbers(settings: Settings) -> dict[str, Any]:
    """Pick the settings that belong to a method alone."""
    return {
        "ae": {},
        "cae": settings.contractive.model_dump(),
        "beta-vae": settings.beta_vae.model_dump(),
    }[settings.method]


def _own_loss(
    network: Callable[..., Tensor], images: Float[Tensor, "b c h w"], generator: torch.Generator
) -> Float[Tensor, ""]:
    return network(images, generator)


def _latents(model: Baseline, dataset: ImageDataset) -> Float[Tensor, "n d"]:
    rows: np.ndarray = dataset.splits["train"]
    chunks = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
    return torch.cat([model.encode(dataset.batch(chunk)) for chunk in chunks])
