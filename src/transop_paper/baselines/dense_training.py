"""The ablation's two phases: a network gives the coefficients, and everything is differentiated.

First dictionary and coefficient network learn with the autoencoder fixed, then all three together
end to end: the phases of our method with coefficient inference replaced by a forward pass.
"""

from __future__ import annotations

from typing import Any

import torch

from transop.data import ImageDataset
from transop.training import (
    Loop,
    Session,
    encode_split,
    find_latent_scale,
    load_images,
    make_pairs,
    measure_reconstruction,
)
from transop_paper.baselines import DenseAutoencoder


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
