"""One step on the operators: infer coefficients, then descend with them held fixed.

Shared by the operator phase and by fine-tuning. No autograd graph is built.
"""

from __future__ import annotations

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from transop.config import FineTuningSettings, OperatorSettings
from transop.inference import (
    ConvergenceWarning,
    infer_coefficients,
    operator_penalty,
    relative_miss,
    share_covered,
)
from transop.operators import TransportOperators, data_gradient, transport
from transop.training.diagnostics import OperatorMonitor
from transop.training.loop import Loop
from transop.training.session import Session

_STEEPEST = 3.0  # of the real-part gradient, as a multiple of the excess


class DictionaryLearner:
    """The operators while they are learned, with their optimiser and diagnostics.

    Attributes:
        operators: the dictionary; its weights change.
        optimiser: Adam on the dictionary alone.
        restarts: the source of random starts, if inference uses several.
        monitor: collects the evidence of every step.
    """

    def __init__(
        self,
        session: Session,
        operators: TransportOperators,
        phase: str,
        weights: OperatorSettings | FineTuningSettings,
    ) -> None:
        """Prepare to learn a dictionary.

        Args:
            session: the run; its operator section names the solver and the restarts.
            operators: the dictionary.
            phase: whose settings the advice names.
            weights: the section with the weights of the objective.
        """
        self.operators = operators
        self.optimiser = torch.optim.Adam(operators.parameters())
        self.restarts = session.generator(phase, "restarts")
        self.monitor = OperatorMonitor(phase)
        self._session, self._weights = session, weights

    def infer(
        self,
        z0: Float[Tensor, "b d"],
        z1: Float[Tensor, "b d"],
        sparsity_weight: float | None = None,
    ) -> Float[Tensor, "b m"]:
        """Infer coefficients, without a warning for every batch with a pair at the limit.

        Args:
            z0: starting points.
            z1: end points.
            sparsity_weight: the one the operators are learned with, if not given.
        """
        weight = self._weights.sparsity_weight if sparsity_weight is None else sparsity_weight
        solver = self._session.settings.operators
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return infer_coefficients(
                self.operators.operators.detach(),
                z0,
                z1,
                sparsity_weight=weight,
                solver=solver.solver,
                restarts=solver.restarts,
                generator=self.restarts,
            ).coefficients

    def step(
        self, loop: Loop, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], rate: float
    ) -> float | None:
        """Take one step on the operators.

        Args:
            loop: the phase, told the numbers of the step.
            z0: starting points, in scaled latent units.
            z1: end points.
            rate: the learning rate, before what rollbacks take off it.

        Returns:
            The objective before the step without the decay, or None if it was not finite.
        """
        self.monitor.memory = loop.memory.setdefault("monitor", {})
        coefficients = self.infer(z0, z1)
        before, gradient = data_gradient(self.operators.operators.detach(), coefficients, z0, z1)
        gradient = self._session.average(gradient * loop.share)
        everyones = self._weave(coefficients, before)
        penalty = self._weights.sparsity_weight * everyones[0].abs().sum(1).mean()
        objective = everyones[1].mean() + penalty
        if not loop.check(objective + gradient.abs().sum()):
            return None
        regularisation = self._regularisation()
        self.operators.set_gradient(self._regularised(gradient))
        for group in self.optimiser.param_groups:
            group["lr"] = rate * loop.step_factor
        self.optimiser.step()
        after = _data_term(self.operators, coefficients, z0, z1)
        eased = regularisation - self._regularisation()
        woven = self._weave(coefficients, after)[1]
        difference = self.monitor.observe(*everyones, woven, eased)
        # Equal on all devices, whose shares of the batch may differ by a row.
        numbers = (float(objective), float(everyones[1].mean()), difference)
        names = ("objective", "loss", "difference")
        loop.record(**{k: v / loop.share for k, v in zip(names, numbers, strict=True)})
        missed = (2 * before).sqrt()
        loop.record(
            residual=float(relative_miss(missed, z1).mean()),
            way=float(share_covered(missed, z0, z1).mean()),
        )
        return float(objective)

    def _weave(self, coefficients: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
        """Give coefficients and data terms of the whole batch, wherever its pairs are."""
        table = self._session.ranks.weave(torch.cat([coefficients, terms[:, None]], 1))
        return table[:, :-1], table[:, -1]

    def review(self, loop: Loop, watched: Float[Tensor, "n d"]) -> None:
        """Write the diagnostics of the steps since the last review and tell what they mean."""
        numbers, signs = self.monitor.review(self.operators, watched)
        loop.memory["monitor"] = self.monitor.memory
        self._session.write(loop.phase, loop.step + 1, **numbers)
        for sign, finding in signs.items():
            self._session.find(loop.phase, loop.step + 1, sign, finding)

    def _regularisation(self) -> float:
        """Evaluate the terms of the objective that depend on the operators alone."""
        dictionary = self.operators.operators.detach()
        value = float(operator_penalty(dictionary, self._weights.operator_decay))
        if self._weights.real_part_penalty > 0:
            excess = real_part_excess(dictionary, self._weights.real_part_tolerance)
            value += self._weights.real_part_penalty * float(excess.square().sum()) / 2
        return value

    def _regularised(self, gradient: Float[Tensor, "m d d"]) -> Float[Tensor, "m d d"]:
        """Add the decay and the penalty on real parts."""
        dictionary = self.operators.operators.detach()
        gradient = gradient + self._weights.operator_decay * dictionary
        if self._weights.real_part_penalty > 0:
            gradient += self._weights.real_part_penalty * real_part_gradient(
                dictionary, self._weights.real_part_tolerance
            )
        return gradient


def real_part_excess(
    operators: Float[Tensor, "m d d"], tolerance: float = 0.0
) -> Float[Tensor, "m d"]:
    """Tell by how much the real parts of eigenvalues exceed a tolerance, e of [REALPART]."""
    size = torch.linalg.eigvals(operators.double()).real.abs()
    return torch.clamp(size - tolerance, min=0.0)


def real_part_gradient(
    operators: Float[Tensor, "m d d"], tolerance: float = 0.0
) -> Float[Tensor, "m d d"]:
    """Differentiate 1/2 sum_i e_i^2 of every operator, e the excess of the real parts.

    [REALPART]  e = sign(Re lambda) max(|Re lambda| - tolerance, 0);
                with Psi = V diag(lambda) V^-1, the gradient is Re(V diag(e) V^-1)^T

    Close to a defective matrix V^-1 is huge, and so would be the step: the gradient of an
    operator is cut to a multiple of its excess. Operators close to zero are left alone: their
    eigenvectors are noise.
    """
    large = torch.linalg.vector_norm(operators, dim=(-2, -1)) > 1e-3
    gradient = torch.zeros_like(operators)
    if bool(large.any()):
        values, vectors = torch.linalg.eig(operators[large].double())
        excess = values.real.sign() * (values.real.abs() - tolerance).clamp_min(0)
        product = torch.linalg.solve(vectors, vectors * excess.unsqueeze(-2), left=False)
        slope = torch.nan_to_num(product.real.mT, nan=0.0, posinf=0.0, neginf=0.0)
        steepness = torch.linalg.vector_norm(slope, dim=(-2, -1)).clamp_min(1e-12)
        limit = _STEEPEST * torch.linalg.vector_norm(excess, dim=-1)
        gradient[large] = (slope * (limit / steepness).clamp(max=1)[:, None, None]).to(operators)
    return gradient


@torch.no_grad()
def _data_term(
    operators: TransportOperators, coefficients: Tensor, z0: Tensor, z1: Tensor
) -> Float[Tensor, " b"]:
    """Evaluate 1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 for every pair."""
    moved = transport(operators.operators, coefficients, z0)
    return (z1 - moved).square().sum(1) / 2
