"""Second phase: learn the operators with the network fixed, on latents encoded once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.config import ObjectiveSettings
from transop.inference import relative_miss, share_covered
from transop.learning import choose_objective
from transop.learning.step import Objective, OperatorStep
from transop.model import ManifoldAutoencoder
from transop.operators import TransportOperators
from transop.pairs import PairSource
from transop.training.diagnostics import OperatorMonitor
from transop.training.latents import find_latent_scale
from transop.training.loop import Loop
from transop.training.session import Session

PHASE = "operators"
_WATCHED = 2000  # latent points whose size is followed
_MOST_PAIRS = 5_000  # from which the weights of the objective are chosen
_CHOSEN = ("sparsity_weight", "operator_decay", "real_part_penalty", "real_part_tolerance")


def train_operators(
    session: Session, model: ManifoldAutoencoder, latents: Float[Tensor, "n d"], pairs: PairSource
) -> dict[str, Any]:
    """Learn a model's operators in place from pairs of its latent points.

    [OBJECTIVE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + zeta |c|_1

    This is `transop.learn_operators` with the checkpoints, devices and diagnostics of a run.

    Operators turn points round the origin, and where that lies is an accident of the encoder's
    bias. ``beyond_paper.origin = "mirrored"`` moves the origin to the opposite side of the
    latents, so that paths bend the other way; encoder and decoder absorb the shift.

    Returns:
        The closing numbers of the diagnostics; the living operators are the estimated model
        order.
    """
    settings, objective = session.settings.operators, session.settings.objective
    if session.settings.beyond_paper.origin == "mirrored":
        offset = -2 * latents.mean(0)
        model.autoencoder.shift_latents(offset.to(session.device))
        latents = latents + offset
    model.latent_scale = _latent_scale(session, latents)
    model.sparsity_weight = objective.sparsity_weight
    points = latents.to(session.device) / model.latent_scale
    learner = DictionaryLearner(session, model.operators, "objective", objective)
    loop = Loop.over(
        session,
        PHASE,
        settings,
        pairs,
        modules={"operators": model.operators},
        optimisers={"operators": learner.optimiser},
        items="pairs",
        explain=learner.monitor.explain_overflow,
    )
    for step in loop:
        z0, z1 = (points[rows] for rows in loop.batch())
        learner.step(loop, z0, z1, loop.rate(learner.optimiser))
        if (step + 1) % loop.steps_per_epoch == 0 or step + 1 == loop.n_steps:
            learner.review(loop, points[:_WATCHED])
    return OperatorMonitor("objective").review(model.operators, points[:_WATCHED])[0]


def _latent_scale(session: Session, latents: Tensor) -> float:
    scale = session.settings.operators.latent_scale
    return find_latent_scale(latents) if scale == "auto" else float(scale)


def choose_weights(
    session: Session, latents: Float[Tensor, "n d"], pairs: PairSource
) -> dict[str, Any]:
    """Let the pairs choose the weights of the objective, if ``operators.objective = "data"``.

    The session's settings get them, for this and the later phases. What is returned is stored
    with the run: the weights, or nothing if the settings give them.
    """
    if session.settings.operators.objective == "settings":
        return {}
    operators = session.settings.operators
    n_pairs = min(_MOST_PAIRS, max(len(pairs), 2))
    first, second = pairs.sample(session.generator("objective", "pairs"), n_pairs)
    chosen = choose_objective(
        latents[first].cpu(),
        latents[second].cpu(),
        operators.n_operators,
        latent_scale=_latent_scale(session, latents),
        n_blocks=operators.n_blocks,
        generator=session.generator("objective", "trials"),
    )
    weights = {name: float(getattr(chosen, name)) for name in _CHOSEN}
    _use(session, weights)
    return weights


def recall_weights(session: Session) -> None:
    """Take up the weights that the data chose in an earlier phase of the run."""
    if session.settings.operators.objective == "data":
        facts = session.folder.finished_phases().get("operators", {})
        _use(session, {name: facts[name] for name in _CHOSEN if name in facts})


def _use(session: Session, weights: dict[str, float]) -> None:
    objective = session.settings.objective.model_copy(update=weights)
    session.settings = session.settings.model_copy(update={"objective": objective})


class DictionaryLearner:
    """The operators while they are learned, with their optimiser and diagnostics."""

    def __init__(
        self,
        session: Session,
        operators: TransportOperators,
        section: str,
        weights: ObjectiveSettings,
    ) -> None:
        """Prepare to learn a dictionary; advice names the settings section."""
        self.operators = operators
        self.monitor = OperatorMonitor(section)
        self._session = session
        self._step = OperatorStep(operators, Objective(**weights.model_dump()))
        self.optimiser = self._step.optimiser
        self.infer = self._step.infer

    def step(
        self, loop: Loop, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], rate: float
    ) -> None:
        """Take one step on the operators between scaled points; none if it is not finite."""
        self.monitor.memory = loop.memory.setdefault("monitor", {})
        own, before, gradient = self._step.differentiate(z0, z1)
        gradient = self._session.average(gradient * loop.share)
        coefficients, losses = self._of_whole_batch(own, before)
        sparsity = self._step.objective.sparsity_weight * coefficients.abs().sum(1).mean()
        objective = losses.mean() + sparsity
        if not loop.check(objective + gradient.abs().sum()):
            return
        penalty = self._step.penalty()
        self._step.descend(gradient, rate * loop.step_factor)
        _, after = self._of_whole_batch(own, self._step.data_term(own, z0, z1))
        difference = self.monitor.observe(
            coefficients, losses, after, penalty - self._step.penalty()
        )
        missed = (2 * before).sqrt()
        # The first three are equal on all devices, whose shares of the batch may differ by a row.
        loop.record(
            objective=float(objective) / loop.share,
            loss=float(losses.mean()) / loop.share,
            difference=difference / loop.share,
            residual=float(relative_miss(missed, z1).mean()),
            covered=float(share_covered(missed, z0, z1).mean()),
        )

    def _of_whole_batch(self, coefficients: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
        """Put coefficients and data terms of all devices together."""
        table = self._session.ranks.interleave(torch.cat([coefficients, terms[:, None]], 1))
        return table[:, :-1], table[:, -1]

    def review(self, loop: Loop, watched: Float[Tensor, "n d"]) -> None:
        """Write the diagnostics of the steps since the last review and say what they mean."""
        numbers, signs = self.monitor.review(self.operators, watched)
        loop.memory["monitor"] = self.monitor.memory
        self._session.write(loop.phase, loop.step + 1, **numbers)
        for sign, finding in signs.items():
            self._session.find(loop.phase, loop.step + 1, sign, finding)
