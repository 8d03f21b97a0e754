"""Coefficient inference: the objective, its solvers, and the result they share."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference.gauss_newton import solve_gauss_newton
from transop.inference.infer import Solver, infer
from transop.inference.lasso import soft_threshold
from transop.inference.objective import SparsityWeight, objective, operator_penalty
from transop.inference.problem import (
    Problem,
    assess,
    relative_miss,
    share_covered,
    solve_in_chunks,
)
from transop.inference.result import ConvergenceWarning, InferenceResult

__all__ = [
    "SOLVERS",
    "ConvergenceWarning",
    "InferenceResult",
    "Problem",
    "Solver",
    "SparsityWeight",
    "assess",
    "infer_coefficients",
    "objective",
    "operator_penalty",
    "relative_miss",
    "share_covered",
    "soft_threshold",
    "solve_in_chunks",
]

SOLVERS: dict[str, Solver] = {"gauss-newton": solve_gauss_newton}


def infer_coefficients(
    operators: Float[Tensor, "m d d"],
    z0: Float[Tensor, "b d"],
    z1: Float[Tensor, "b d"],
    *,
    sparsity_weight: SparsityWeight,
    solver: str | Solver = "gauss-newton",
    restarts: int = 1,
    initial: Float[Tensor, "b m"] | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    generator: torch.Generator | None = None,
    **solver_options: Any,
) -> InferenceResult:
    """Find the sparse coefficients whose flow carries each z0 to its z1.

    [OBJECTIVE]  min_c 1/2 | z1 - expm(sum_m c_m Psi_m) z0 |^2 + sum_m zeta_m |c_m|

    The objective is not convex: solvers find a minimum, and ``restarts`` looks for better ones.
    Whatever happens inside, coefficients are finite and never worse than standing still.

    Args:
        operators: the dictionary Psi.
        z0: starting points, in scaled latent units.
        z1: end points, one per starting point.
        sparsity_weight: zeta; one number, one per operator, or one per pair and operator.
        solver: ``"gauss-newton"``, or a function of your own that takes a :class:`Problem` and
            the first coefficients, then its options by name, and returns an
            :class:`InferenceResult`. Both go through the same checks.
        restarts: runs from different starting coefficients; the best is kept pair by pair.
        initial: coefficients of the first start. Without it ``gauss-newton`` starts at zero,
            other solvers at the paper's draw.
        max_iterations: limit per pair and start; the solver's own if left out.
        tolerance: when a pair has converged; the solver says in which sense, and its default.
        generator: where random starts come from; a fixed seed if left out.
        solver_options: what only this solver takes, such as ``backend``.

    Returns:
        Detached results in the type and on the device of the points.

    Raises:
        UserError: an argument has the wrong shape, type, name or value, or is not finite.

    Warns:
        ConvergenceWarning: some pairs did not converge.
    """
    limits = {"max_iterations": max_iterations, "tolerance": tolerance}
    given = {name: value for name, value in limits.items() if value is not None}
    return infer(
        SOLVERS,
        operators,
        z0,
        z1,
        sparsity_weight=sparsity_weight,
        solver=solver,
        restarts=restarts,
        initial=initial,
        generator=generator,
        options=given | solver_options,
    )
