"""Coefficient inference: the objective, its solvers, and the result they share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference.conjugate_gradient import solve_conjugate_gradient
from transop.inference.first_order import (
    proximal_nesterov_step,
    proximal_step,
    solve_by_steps,
    subgradient_nesterov_step,
    subgradient_step,
)
from transop.inference.gauss_newton import solve_gauss_newton
from transop.inference.infer import infer
from transop.inference.objective import SparsityWeight, objective, operator_penalty
from transop.inference.problem import relative_miss, way_covered
from transop.inference.result import ConvergenceWarning, InferenceResult

__all__ = [
    "SOLVERS",
    "ConvergenceWarning",
    "InferenceResult",
    "SparsityWeight",
    "infer_coefficients",
    "objective",
    "operator_penalty",
    "relative_miss",
    "way_covered",
]

SOLVERS: dict[str, Callable[..., InferenceResult]] = {
    "gauss-newton": solve_gauss_newton,
    "proximal": partial(solve_by_steps, proximal_step),
    "proximal-nesterov": partial(solve_by_steps, proximal_nesterov_step),
    "subgradient": partial(solve_by_steps, subgradient_step),
    "subgradient-nesterov": partial(solve_by_steps, subgradient_nesterov_step),
    "conjugate-gradient": solve_conjugate_gradient,
}


def infer_coefficients(
    operators: Float[Tensor, "m d d"],
    z0: Float[Tensor, "b d"],
    z1: Float[Tensor, "b d"],
    *,
    sparsity_weight: SparsityWeight,
    solver: str = "gauss-newton",
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
        solver: a key of :data:`SOLVERS`; all minimise the same objective.
        restarts: runs from different starting coefficients; the best is kept pair by pair.
        initial: coefficients of the first start. Without it ``gauss-newton`` starts at zero,
            the others at the paper's draw.
        max_iterations: limit per pair; the solver's own if left out.
        tolerance: when a pair is done; the solver says in which sense, and its default.
        generator: where random starts come from; a fixed seed if left out.
        solver_options: what only this solver takes, such as ``backend`` or ``step_size``.

    Returns:
        Detached results in the type and on the device of the points.

    Raises:
        UserError: an argument has the wrong shape, type, name or value, or is not finite.

    Warns:
        ConvergenceWarning: some pairs stopped at the iteration limit.
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
