"""Train the methods we compare with, through the same loop, folder and checkpoints as ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transop.artifacts import RunFolder
from transop.data import ImageDataset
from transop.networks import prefer_channels_last
from transop.progress import Progress
from transop.training import (
    Loop,
    Phase,
    Session,
    TrainingPlan,
    encode_split,
    find_latent_scale,
    load_images,
    make_pairs,
    measure_reconstruction,
    obtain_autoencoder,
    steps_in,
    train_autoencoder,
    train_phases,
)
from transop_paper.baselines import BASELINES, Baseline, BetaVAE, DenseAutoencoder
from transop_paper.baselines.settings import BaselineSettings


def dense_operator_phase(
    session: Session, model: DenseAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    """Learn dictionary and coefficient network on fixed latents."""
    settings = session.settings.operators
    latents = encode_split(model.network, dataset, ranks=session.ranks, progress=session.progress)
    scale = settings.latent_scale
    model.numbers["latent_scale"] = find_latent_scale(latents) if scale == "auto" else scale
    points = latents.to(session.device) / model.numbers["latent_scale"]
    pairs = make_pairs(session, model.network, dataset)
    learned = {"operators": model.operators, "coefficients": model.coefficient_network}
    parameters = [p for module in learned.values() for p in module.parameters()]
    optimiser = torch.optim.Adam(parameters, settings.learning_rate)
    loop = Loop.over(
        session,
        "operators",
        settings,
        pairs,
        modules=learned,
        optimisers={"all": optimiser},
        items="pairs",
    )
    for _ in loop:
        starts, ends = loop.batch()
        value = model.path_loss(points[starts], points[ends])
        if not loop.check(value):
            continue
        loop.descend(optimiser, value, settings.learning_rate)
        loop.record(loss=value.item())
    return {"latent_scale": model.numbers["latent_scale"]}


def dense_fine_tuning_phase(
    session: Session, model: DenseAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    """Train autoencoder, dictionary and coefficient network together."""
    settings = session.settings.fine_tuning
    model.numbers["operator_decay"] = session.settings.fine_tuning_objective.operator_decay
    pairs = make_pairs(session, model.network, dataset)
    flow = [*model.operators.parameters(), *model.coefficient_network.parameters()]
    rates = [settings.network_learning_rate, settings.operator_learning_rate]
    optimiser = torch.optim.Adam(
        [{"params": list(model.network.parameters())}, {"params": flow}], rates[0]
    )
    wrapped = session.set_up(model)
    noise = session.generator("fine_tuning", "noise")
    rows = dataset.splits["train"]
    loop = Loop.over(
        session,
        "fine_tuning",
        settings,
        pairs,
        modules={"model": model},
        optimisers={"all": optimiser},
        items="pairs",
        explain=lambda: "lower the learning rates of fine_tuning",
    )
    model.train()
    for _ in loop:
        both = rows[torch.cat(loop.batch()).numpy()]
        value = wrapped(load_images(dataset, both, session), noise)
        if not loop.check(value):
            continue
        loop.differentiate(optimiser, value)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * loop.step_factor
        optimiser.step()
        loop.record(joint=value.item())
    model.eval()
    return dict(measure_reconstruction(model, dataset))


def train_baseline(
    settings: BaselineSettings,
    folder: RunFolder,
    *,
    dataset: Any = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Baseline:
    """Run the phases a baseline's run folder is missing, as `transop.training.train` does."""
    plan = TrainingPlan(_load, _build, _phases)
    return train_phases(settings, folder, plan, dataset=dataset, resume=resume, progress=progress)


# Functions with a name: several processes are started with them.
def _load(settings: Any, folder: Path, device: torch.device | None) -> Baseline:
    return BASELINES[settings.method].from_pretrained(folder, device=device)


def _phases(settings: Any, dataset: ImageDataset) -> dict[str, Phase]:
    del dataset
    return BASELINE_PHASES[settings.method]


def _build(session: Session, dataset: ImageDataset) -> Baseline:
    settings: Any = session.settings
    with session.seeded("weights", "autoencoder"):
        model = BASELINES[settings.method].build(
            _numbers(settings),
            name=settings.autoencoder.network,
            image_size=dataset.image_size,
            channels=dataset.n_channels,
            latent_dimension=settings.autoencoder.latent_dimension,
            width=settings.autoencoder.width,
        )
    model.class_names = dataset.meta.class_names
    prefer_channels_last(model)
    return model


def _own_phase(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Minimise the baseline's own loss on the training images."""
    if isinstance(model, BetaVAE):
        settings, n_images = session.settings, len(dataset.splits["train"])
        assert isinstance(settings, BaselineSettings)
        network = settings.autoencoder
        n_steps = steps_in(network.epochs, n_images, min(network.batch_size, n_images))[1]
        model.numbers["warm_up_steps"] = round(settings.beta_vae.warm_up * n_steps)

    def own_loss(network: Callable[..., Tensor], images: Tensor, noise: torch.Generator) -> Tensor:
        return network(images, noise)

    train_autoencoder(session, model, dataset, loss=own_loss)
    return _measure(session, model, dataset)


def _plain_phase(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Train the autoencoder alone, on reconstruction, or take over another run's."""
    obtain_autoencoder(session, model.network, dataset)
    return _measure(session, model, dataset)


def _measure(session: Session, model: Baseline, dataset: ImageDataset) -> dict[str, Any]:
    """Measure how the latents spread and how well held-out images are reconstructed."""
    latents = encode_split(model.network, dataset, ranks=session.ranks, progress=session.progress)
    model.measure_latents(latents)
    return dict(measure_reconstruction(model, dataset))


# Which phases each baseline goes through.
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


def _numbers(settings: BaselineSettings) -> dict[str, Any]:
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
