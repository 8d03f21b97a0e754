"""The ablation's two phases: a network gives the coefficients, and everything is differentiated.

First dictionary and coefficient network learn with the autoencoder fixed, then all three together
end to end: the phases of our method with coefficient inference replaced by a forward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from transop.data import ImageDataset
from transop.training import (
    Loop,
    PairOrder,
    Session,
    encode_split,
    find_latent_scale,
    load_images,
    make_pairs,
    measure_reconstruction,
    steps_in,
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
    batch_size = min(settings.batch_size, len(pairs))
    per_epoch, n_steps = steps_in(settings.epochs, len(pairs), batch_size)
    order = PairOrder(session, "operators", pairs, batch_size)
    learned = {"operators": model.operators, "coefficients": model.coefficient_network}
    parameters = [p for module in learned.values() for p in module.parameters()]
    optimiser = torch.optim.Adam(parameters, settings.learning_rate)
    loop = Loop(
        session,
        "operators",
        n_steps,
        modules=learned,
        optimisers={"all": optimiser},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        items="pairs",
        explain=lambda: f"lower operators.learning_rate (now {settings.learning_rate:g})",
    )
    for step in loop:
        starts, ends = order.rows(step)
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
    batch_size = min(settings.batch_size, len(pairs))
    per_epoch, n_steps = steps_in(settings.epochs, len(pairs), batch_size)
    order = PairOrder(session, "fine_tuning", pairs, batch_size)
    flow = [*model.operators.parameters(), *model.coefficient_network.parameters()]
    rates = [settings.network_learning_rate, settings.operator_learning_rate]
    optimiser = torch.optim.Adam(
        [{"params": list(model.network.parameters())}, {"params": flow}], rates[0]
    )
    wrapped = session.set_up(model)
    noise = session.generator("fine_tuning", "noise")
    rows = dataset.splits["train"]
    loop = Loop(
        session,
        "fine_tuning",
        n_steps,
        modules={"model": model},
        optimisers={"all": optimiser},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        items="pairs",
        explain=lambda: "lower the learning rates of fine_tuning",
    )
    model.train()
    for step in loop:
        both = np.concatenate([rows[part.numpy()] for part in order.rows(step)])
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
