"""One step of learning operators, and what the paths between pairs look like after it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference import (
    ConvergenceWarning,
    infer_coefficients,
    operator_penalty,
    share_covered,
)
from transop.inputs import check_number
from transop.operators import (
    TransportOperators,
    block_slices,
    data_gradient,
    eigenvalues,
    largest_real_part,
    transport,
)
from transop.operators.devices import where_supported

ALIVE = 0.05  # smallest Frobenius norm of an operator that counts as in use
_STEEPEST = 3.0  # of the real-part gradient, as a multiple of the excess
_EXTRAPOLATED = 3.0  # how far paths are followed to see whether they grow
_MOST_GROWTH = 80.0  # its logarithm, beyond which the number says nothing more


@dataclass(frozen=True)
class Objective:
    """The weights of [OBJECTIVE] and of the penalty [REALPART], for vectors of length about one.

    Attributes:
        sparsity_weight: zeta, the weight of the coefficients' absolute values.
        operator_decay: gamma, the weight of the operators' squared norms.
        real_part_penalty: the weight of [REALPART]; 0 switches it off.
        real_part_tolerance: real parts of eigenvalues up to this size are not penalised.
    """

    sparsity_weight: float = 0.05
    operator_decay: float = 1e-4
    real_part_penalty: float = 0.0
    real_part_tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name, value in dict(vars(self)).items():
            number = check_number(name, value, "a finite number from 0 on")
            object.__setattr__(self, name, number)  # the dataclass is frozen for everyone else


def infer_quietly(
    operators: Float[Tensor, "m d d"],
    z0: Float[Tensor, "b d"],
    z1: Float[Tensor, "b d"],
    sparsity_weight: float,
    **options: Any,
) -> Float[Tensor, "b m"]:
    """Infer coefficients; a pair that stops at the iteration limit raises no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = infer_coefficients(operators, z0, z1, sparsity_weight=sparsity_weight, **options)
    return found.coefficients


class OperatorStep:
    """One step of learning: infer coefficients, hold them fixed, descend on the operators.

    [OBJECTIVE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + zeta |c|_1

    No autograd graph is built. The two halves are separate methods, so that several devices can
    average the gradient in between.

    Attributes:
        operators: the dictionary; its weights change.
        objective: the weights of the objective.
        optimiser: Adam on the dictionary alone.
    """

    def __init__(self, operators: TransportOperators, objective: Objective) -> None:
        self.operators, self.objective = operators, objective
        self.optimiser = torch.optim.Adam(operators.parameters())

    def infer(
        self,
        z0: Float[Tensor, "b d"],
        z1: Float[Tensor, "b d"],
        sparsity_weight: float | None = None,
    ) -> Float[Tensor, "b m"]:
        """Infer coefficients, with the sparsity weight of the objective if none is given.

        The patient back end is left out: a step must not wait for one pair in a thousand.
        """
        weight = self.objective.sparsity_weight if sparsity_weight is None else sparsity_weight
        dictionary = self.operators.operators.detach()
        return infer_quietly(dictionary, z0, z1, weight, backend="compiled")

    def differentiate(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"]
    ) -> tuple[Float[Tensor, "b m"], Float[Tensor, " b"], Float[Tensor, "m d d"]]:
        """Give coefficients, the data term of every pair, and its mean's gradient by operators."""
        coefficients = self.infer(z0, z1)
        dictionary = self.operators.operators.detach()
        losses, gradient = data_gradient(
            dictionary, coefficients, z0, z1, within_blocks=self.operators.n_blocks > 1
        )
        return coefficients, losses, gradient

    def descend(self, gradient: Float[Tensor, "m d d"], rate: float) -> None:
        """Take a gradient step on data term, decay and real parts with a learning rate."""
        dictionary, weights = self.operators.operators.detach(), self.objective
        gradient = gradient + weights.operator_decay * dictionary
        if weights.real_part_penalty > 0:
            gradient += weights.real_part_penalty * real_part_gradient(
                dictionary, weights.real_part_tolerance
            )
        self.operators.set_gradient(gradient)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()

    def penalty(self) -> float:
        """Evaluate the terms of the objective that depend on the operators alone."""
        dictionary, weights = self.operators.operators.detach(), self.objective
        value = float(operator_penalty(dictionary, weights.operator_decay))
        if weights.real_part_penalty > 0:
            excess = real_part_excess(dictionary, weights.real_part_tolerance)
            value += weights.real_part_penalty * float(excess.square().sum()) / 2
        return value

    @torch.no_grad()
    def data_term(
        self,
        coefficients: Float[Tensor, "b m"],
        z0: Float[Tensor, "b d"],
        z1: Float[Tensor, "b d"],
    ) -> Float[Tensor, " b"]:
        """Evaluate 1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 of every pair."""
        moved = transport(self.operators.operators, coefficients, z0)
        return (z1 - moved).square().sum(1) / 2


@dataclass(frozen=True)
class PathStatistics:
    """What the paths between pairs look like under some operators.

    Attributes:
        covered: mean share of the distance from z0 to z1 that a path covers; 1 is a perfect hit.
        nonzeros: mean number of operators that a path uses.
        without_path: share of the pairs whose coefficients are all zero.
        mean_coefficient: mean size of the coefficients that are not zero.
        largest_real_part: largest real part of an eigenvalue of a living operator, by size.
        growth: factor by which vectors lengthen or shorten along paths extrapolated to t = 3,
            which 95 % of the paths stay below.
    """

    covered: float
    nonzeros: float
    without_path: float
    mean_coefficient: float
    largest_real_part: float
    growth: float


@torch.no_grad()
def measure_paths(
    operators: Float[Tensor, "m d d"],
    z0: Float[Tensor, "n d"],
    z1: Float[Tensor, "n d"],
    *,
    sparsity_weight: float,
) -> PathStatistics:
    """Infer the paths of some pairs and describe them.

    Args:
        operators: the dictionary.
        z0: starting points, in the units of the sparsity weight.
        z1: end points.
        sparsity_weight: zeta.
    """
    coefficients = infer_quietly(operators, z0, z1, sparsity_weight)
    missed: Tensor = torch.linalg.vector_norm(z1 - transport(operators, coefficients, z0), dim=1)
    apart = (z1 != z0).any(1)  # two equal vectors have no distance to cover
    used = coefficients != 0
    counts = used.sum(0)
    rates = largest_real_part(operators)
    alive = torch.linalg.vector_norm(operators, dim=(1, 2)) > ALIVE
    covered = share_covered(missed, z0, z1)[apart]
    return PathStatistics(
        covered=float(covered.mean()) if len(covered) else 0.0,
        nonzeros=float(used.sum(1).float().mean()),
        without_path=float((~used.any(1)).float().mean()),
        mean_coefficient=float(coefficients.abs().sum() / counts.sum().clamp_min(1)),
        largest_real_part=float((rates * alive).max()) if len(rates) else 0.0,
        growth=_growth(operators, coefficients, z0),
    )


def _growth(operators: Tensor, coefficients: Tensor, z0: Tensor) -> float:
    """Measure by which factor extrapolated paths change the length of vectors, 95 % of them."""
    start, end = (
        torch.linalg.vector_norm(z, dim=1)
        for z in (z0, transport(operators, _EXTRAPOLATED * coefficients, z0))
    )
    change = (end / start).log().abs()[start > 0].nan_to_num(posinf=_MOST_GROWTH)
    typical = float(change.quantile(0.95)) if len(change) else 0.0
    return math.exp(min(typical, _MOST_GROWTH))


def real_part_excess(
    operators: Float[Tensor, "m d d"], tolerance: float = 0.0
) -> Float[Tensor, "m d"]:
    """Tell by how much the real parts of eigenvalues exceed a tolerance, e of [REALPART]."""
    size = eigenvalues(where_supported(operators).double()).real.abs()
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
    gradient = torch.zeros_like(operators)
    for i in block_slices(operators):
        gradient[:, i, i] = _real_part_gradient_of_block(operators[:, i, i], tolerance)
    return gradient


def _real_part_gradient_of_block(operators: Tensor, tolerance: float) -> Tensor:
    large = torch.linalg.vector_norm(operators, dim=(-2, -1)) > 1e-3
    gradient = torch.zeros_like(operators)
    if bool(large.any()):
        values, vectors = torch.linalg.eig(where_supported(operators[large]).double())
        excess = values.real.sign() * (values.real.abs() - tolerance).clamp_min(0)
        product = torch.linalg.solve(vectors, vectors * excess.unsqueeze(-2), left=False)
        slope = torch.nan_to_num(product.real.mT, nan=0.0, posinf=0.0, neginf=0.0)
        steepness = torch.linalg.vector_norm(slope, dim=(-2, -1)).clamp_min(1e-12)
        limit = _STEEPEST * torch.linalg.vector_norm(excess, dim=-1)
        gradient[large] = (slope * (limit / steepness).clamp(max=1)[:, None, None]).to(operators)
    return gradient
