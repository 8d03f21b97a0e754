"""The operators of a run while they are learned: `OperatorStep` with devices and diagnostics.

Shared by the operator phase and by fine-tuning.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from transop.config import ObjectiveSettings
from transop.inference import relative_miss, share_covered
from transop.learning.step import Objective, OperatorStep
from transop.operators import TransportOperators
from transop.training.diagnostics import OperatorMonitor
from transop.training.loop import Loop
from transop.training.session import Session


class DictionaryLearner:
    """The operators while they are learned, with their optimiser and diagnostics.

    Attributes:
        operators: the dictionary; its weights change.
        optimiser: Adam on the dictionary alone.
        monitor: collects the evidence of every step.
    """

    def __init__(
        self,
        session: Session,
        operators: TransportOperators,
        section: str,
        weights: ObjectiveSettings,
    ) -> None:
        """Prepare to learn a dictionary.

        Args:
            session: the run.
            operators: the dictionary.
            section: the settings section that the advice names.
            weights: of the objective.
        """
        self.operators = operators
        self.monitor = OperatorMonitor(section)
        self._session = session
        self._step = OperatorStep(operators, Objective(**weights.model_dump()))
        self.optimiser = self._step.optimiser
        self.infer = self._step.infer

    def step(
        self, loop: Loop, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], rate: float
    ) -> None:
        """Take one step on the operators; none if the objective is not finite.

        Args:
            loop: the phase, told the numbers of the step.
            z0: starting points, in scaled latent units.
            z1: end points.
            rate: the learning rate, before what rollbacks take off it.
        """
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
        # Equal on all devices, whose shares of the batch may differ by a row.
        numbers = (float(objective), float(losses.mean()), difference)
        names = ("objective", "loss", "difference")
        loop.record(**{k: v / loop.share for k, v in zip(names, numbers, strict=True)})
        missed = (2 * before).sqrt()
        loop.record(
            residual=float(relative_miss(missed, z1).mean()),
            covered=float(share_covered(missed, z0, z1).mean()),
        )

    def _of_whole_batch(self, coefficients: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
        """Put coefficients and data terms of all devices together."""
        table = self._session.ranks.weave(torch.cat([coefficients, terms[:, None]], 1))
        return table[:, :-1], table[:, -1]

    def review(self, loop: Loop, watched: Float[Tensor, "n d"]) -> None:
        """Write the diagnostics of the steps since the last review and say what they mean.

        Args:
            loop: the phase.
            watched: some latent points, in scaled units.
        """
        numbers, signs = self.monitor.review(self.operators, watched)
        loop.memory["monitor"] = self.monitor.memory
        self._session.write(loop.phase, loop.step + 1, **numbers)
        for sign, finding in signs.items():
            self._session.find(loop.phase, loop.step + 1, sign, finding)
