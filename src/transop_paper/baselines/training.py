"""Train the methods we compare with, through the same loop, folder and checkpoints as ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.config import Settings
from transop.data import ImageDataset
from transop.evaluation import reconstruction_error
from transop.networks import prefer_channels_last
from transop.pairs.features import collect_rows
from transop.training.autoencoder import obtain_autoencoder, train_autoencoder
from transop.training.loop import steps_in
from transop.training.measures import held_out_rows
from transop.training.session import Session
from transop_paper.baselines import BASELINES, Baseline, BetaVAE
from transop_paper.baselines.dense_training import dense_fine_tuning_phase, dense_operator_phase

_CHUNK = 500

Phase = Callable[[Session, Any, ImageDataset], dict[str, Any]]


def first_or_saved_baseline(session: Session, dataset: ImageDataset) -> Baseline:
    """Load the run's model, or build the untrained one its settings describe."""
    settings = session.settings
    kind = BASELINES[settings.method]
    if (session.folder.path / "model.safetensors").exists():
        model = kind.from_pretrained(session.folder.path, device=session.device)
        prefer_channels_last(model)  # as while it was trained: another layout rounds otherwise
        return model
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
    prefer_channels_last(model)
    return model.to(session.device)


def _own_phase(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Minimise the baseline's own loss on the training images.

    Returns:
        The held-out squared error per pixel.
    """
    if isinstance(model, BetaVAE):
        settings, n_images = session.settings.autoencoder, len(dataset.splits["train"])
        n_steps = steps_in(settings.epochs, n_images, min(settings.batch_size, n_images))[1]
        model.numbers["warm_up_steps"] = round(session.settings.beta_vae.warm_up * n_steps)
    train_autoencoder(session, model, dataset, loss=_own_loss)
    model.measure_latents(_latents(model, dataset))
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


def _plain_phase(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Train the autoencoder alone, on reconstruction, or take over another run's."""
    obtain_autoencoder(session, model.network, dataset)
    model.measure_latents(_latents(model, dataset))
    return {"test_mse": reconstruction_error(model, dataset, held_out_rows(dataset))}


# Which phases each baseline goes through; ours are in ``fit``.
BASELINE_PHASES: dict[str, dict[str, Phase]] = {
    "ae": {"autoencoder": _plain_phase},
    "cae": {"autoencoder": _own_phase},
    "beta-vae": {"autoencoder": _own_phase},
    "dense": {
        "autoencoder": _plain_phase,
        "operators": dense_operator_phase,
        "fine_tuning": dense_fine_tuning_phase,
    },
}


def _numbers(settings: Settings) -> dict[str, Any]:
    """Pick the settings that belong to a method alone."""
    return {
        "ae": {},
        "cae": settings.contractive.model_dump(),
        "beta-vae": {"beta": settings.beta_vae.beta, "warm_up_steps": 0},
        "dense": {
            **settings.dense.model_dump(),
            "n_operators": settings.operators.n_operators,
            "latent_scale": 1.0,
            "operator_decay": settings.objective.operator_decay,
            "reconstruction_weight": settings.fine_tuning.reconstruction_weight,
        },
    }[settings.method]


def _own_loss(
    network: Callable[..., Tensor], images: Float[Tensor, "b c h w"], generator: torch.Generator
) -> Float[Tensor, ""]:
    return network(images, generator)


def _latents(model: Baseline, dataset: ImageDataset) -> Float[Tensor, "n d"]:
    rows: np.ndarray = dataset.splits["train"]
    chunks = (rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK))
    return collect_rows((model.encode(dataset.batch(chunk)) for chunk in chunks), len(rows))
