"""Second phase: learn the operators with the network fixed.

Each step infers the coefficients of a batch of pairs and takes one gradient step on the
dictionary with those coefficients held fixed. Latents are encoded once; no autograd graph is
built.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference import ConvergenceWarning, infer_coefficients
from transop.model import ManifoldAutoencoder
from transop.operators import TransportOperators, data_gradient, transport
from transop.training.diagnostics import OperatorMonitor
from transop.training.latents import find_latent_scale
from transop.training.loop import Loop, steps_in
from transop.training.pair_order import PairOrder, Pairs
from transop.training.schedule import set_learning_rate
from transop.training.session import Session

PHASE = "operators"
_WATCHED = 2000  # latent points whose size is followed
_PROGRESS = 1e-3  # relative fall of the objective that still counts as progress


def train_operators(
    session: Session,
    model: ManifoldAutoencoder,
    latents: Float[Tensor, "n d"],
    pairs: Pairs,
) -> dict[str, Any]:
    """Learn a model's operators in place from pairs of its latent points.

    [OBJECTIVE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + zeta |c|_1

    Args:
        session: the run.
        model: its operators, latent scale and sparsity weight change.
        latents: raw latents of the training images.
        pairs: which of them belong together.

    Returns:
        The closing numbers of the diagnostics.
    """
    settings = session.settings.operators
    scale = settings.latent_scale
    model.latent_scale = find_latent_scale(latents) if scale == "auto" else float(scale)
    model.sparsity_weight = settings.sparsity_weight
    points = latents.to(session.device) / model.latent_scale
    operators = model.operators
    batch_size = min(settings.batch_size, len(pairs))
    per_epoch, n_steps = steps_in(settings.epochs, len(pairs), batch_size)
    order = PairOrder(session, PHASE, pairs, batch_size)
    optimiser = torch.optim.Adam(operators.parameters(), settings.learning_rate)
    restarts = session.generator(PHASE, "restarts")
    monitor = OperatorMonitor(PHASE)
    loop = Loop(
        session,
        PHASE,
        n_steps,
        modules={"operators": operators},
        optimisers={"operators": optimiser},
        generators={"restarts": restarts},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        items="pairs",
        explain=monitor.explain_overflow,
    )
    for step in loop:
        monitor.memory = loop.memory.setdefault("monitor", {})
        z0, z1 = (points[rows] for rows in order.rows(step))
        coefficients = infer_quietly(
            operators,
            z0,
            z1,
            sparsity_weight=settings.sparsity_weight,
            solver=settings.solver,
            restarts=settings.restarts,
            generator=restarts,
        )
        before, gradient = data_gradient(operators.operators.detach(), coefficients, z0, z1)
        objective = before.mean() + settings.sparsity_weight * coefficients.abs().sum(1).mean()
        if not loop.check(objective + gradient.abs().sum()):
            continue
        rate = settings.learning_rate
        set_learning_rate(
            optimiser, settings.schedule, rate, step, n_steps, factor=loop.step_factor
        )
        step_operators(session, operators, optimiser, gradient, settings)
        after = data_term(operators, coefficients, z0, z1)
        difference = monitor.observe(coefficients, before, after)
        loop.record(objective=float(objective), loss=float(before.mean()), difference=difference)
        loop.memory["epoch_sum"] = loop.memory.get("epoch_sum", 0.0) + float(objective)
        if (step + 1) % per_epoch == 0 or step + 1 == n_steps:
            review(session, loop, monitor, operators, points[:_WATCHED])
            if _on_plateau(loop.memory, settings.plateau_patience):
                loop.end()
    return monitor_numbers(operators, points[:_WATCHED])


def infer_quietly(operators: TransportOperators, z0: Tensor, z1: Tensor, **options: Any) -> Tensor:
    """Infer coefficients without a warning for every batch with a pair at the limit."""
    dictionary = operators.operators.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return infer_coefficients(dictionary, z0, z1, **options).coefficients


def step_operators(
    session: Session,
    operators: TransportOperators,
    optimiser: torch.optim.Optimizer,
    gradient: Float[Tensor, "m d d"],
    settings: Any,
) -> None:
    """Take one step on the dictionary, with the decay and the real-part penalty added.

    Args:
        session: the run, which averages over devices.
        operators: the dictionary; its weights change.
        optimiser: holds the dictionary's moments.
        gradient: of the mean data term.
        settings: a section with ``operator_decay`` and ``real_part_penalty``.
    """
    if session.fabric.world_size > 1:
        gradient = session.fabric.all_reduce(gradient, reduce_op="mean")
    dictionary = operators.operators.detach()
    gradient = gradient + settings.operator_decay * dictionary
    if settings.real_part_penalty > 0:
        gradient = gradient + settings.real_part_penalty * real_part_gradient(dictionary)
    operators.set_gradient(gradient)
    optimiser.step()


def real_part_gradient(operators: Float[Tensor, "m d d"]) -> Float[Tensor, "m d d"]:
    """Differentiate 1/2 sum_i Re(lambda_i)^2 of every operator.

    [REALPART]  with Psi = V diag(lambda) V^-1, the gradient is Re(V diag(Re lambda) V^-1)^T

    Operators close to zero are left alone: their eigenvectors are noise.
    """
    large = torch.linalg.vector_norm(operators, dim=(-2, -1)) > 1e-3
    gradient = torch.zeros_like(operators)
    if bool(large.any()):
        values, vectors = torch.linalg.eig(operators[large].double())
        weighted = vectors * values.real.unsqueeze(-2)
        product = torch.linalg.solve(vectors, weighted, left=False)
        gradient[large] = product.real.mT.to(operators)
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)


@torch.no_grad()
def data_term(
    operators: TransportOperators, coefficients: Tensor, z0: Tensor, z1: Tensor
) -> Float[Tensor, " b"]:
    """Evaluate 1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 for every pair."""
    moved = transport(operators.operators, coefficients, z0)
    return (z1 - moved).square().sum(1) / 2


def review(
    session: Session,
    loop: Loop,
    monitor: OperatorMonitor,
    operators: TransportOperators,
    watched: Float[Tensor, "n d"],
) -> None:
    """Write the diagnostics of the steps since the last review and tell what they mean."""
    numbers, signs = monitor.review(operators, watched)
    loop.memory["monitor"] = monitor.memory
    session.write(loop.phase, loop.step + 1, **numbers)
    for sign, finding in signs.items():
        session.find(loop.phase, loop.step + 1, sign, finding)


def monitor_numbers(operators: TransportOperators, watched: Tensor) -> dict[str, Any]:
    """Summarise a finished dictionary; the living operators are the estimated model order."""
    numbers, _ = OperatorMonitor(PHASE).review(operators, watched)
    return numbers


def _on_plateau(memory: dict[str, Any], patience: int | None) -> bool:
    """Say whether the objective has stopped falling, and keep its history."""
    total = memory.pop("epoch_sum")
    best = memory.get("best")
    if best is None or total < (1 - _PROGRESS) * best:
        memory["best"], memory["waited"] = total, 0
    else:
        memory["waited"] += 1
    return patience is not None and memory["waited"] >= patience
