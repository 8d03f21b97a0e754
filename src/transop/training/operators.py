"""Second phase: learn the operators with the network fixed, on latents encoded once."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from transop.model import ManifoldAutoencoder
from transop.training.diagnostics import OperatorMonitor
from transop.training.dictionary import DictionaryLearner
from transop.training.latents import find_latent_scale
from transop.training.loop import Loop, steps_in
from transop.training.pair_order import PairOrder, Pairs
from transop.training.schedule import schedule_rate
from transop.training.session import Session

PHASE = "operators"
_WATCHED = 2000  # latent points whose size is followed


def train_operators(
    session: Session,
    model: ManifoldAutoencoder,
    latents: Float[Tensor, "n d"],
    pairs: Pairs,
) -> dict[str, Any]:
    """Learn a model's operators in place from pairs of its latent points.

    [OBJECTIVE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + zeta |c|_1

    This is `transop.learn_operators` with the checkpoints, devices and diagnostics of a run.

    Operators turn points round the origin, and where that lies is an accident of the encoder's
    bias. ``beyond_paper.origin = "mirrored"`` moves the origin to the opposite side of the
    latents, so that paths bend the other way; encoder and decoder absorb the shift.

    Args:
        session: the run.
        model: its operators, latent scale and sparsity weight change; its network by the shift.
        latents: raw latents of the training images.
        pairs: which of them belong together.

    Returns:
        The closing numbers of the diagnostics; the living operators are the estimated model
        order.
    """
    settings, objective = session.settings.operators, session.settings.objective
    if session.settings.beyond_paper.origin == "mirrored":
        offset = -2 * latents.mean(0)
        model.autoencoder.shift_latents(offset.to(session.device))
        latents = latents + offset
    scale = settings.latent_scale
    model.latent_scale = find_latent_scale(latents) if scale == "auto" else float(scale)
    model.sparsity_weight = objective.sparsity_weight
    points = latents.to(session.device) / model.latent_scale
    batch_size = min(settings.batch_size, len(pairs))
    per_epoch, n_steps = steps_in(settings.epochs, len(pairs), batch_size)
    order = PairOrder(session, PHASE, pairs, batch_size)
    learner = DictionaryLearner(session, model.operators, "objective", objective)
    loop = Loop(
        session,
        PHASE,
        n_steps,
        modules={"operators": model.operators},
        optimisers={"operators": learner.optimiser},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        items="pairs",
        explain=learner.monitor.explain_overflow,
    )
    for step in loop:
        z0, z1 = (points[rows] for rows in order.rows(step))
        peak, optimiser = settings.learning_rate, learner.optimiser
        learner.step(loop, z0, z1, schedule_rate(optimiser, settings.schedule, peak, step, n_steps))
        if (step + 1) % per_epoch == 0 or step + 1 == n_steps:
            learner.review(loop, points[:_WATCHED])
    return OperatorMonitor("objective").review(model.operators, points[:_WATCHED])[0]
