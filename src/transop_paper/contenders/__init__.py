"""The published solvers, to be compared with: all minimise the objective of the default solver.

Each takes what the library's own solver takes, a ``Problem`` and first coefficients, and goes
through the same checks: ``infer_coefficients(..., solver=CONTENDERS["proximal"])``.
"""

from collections.abc import Callable
from functools import partial

from transop.inference import SOLVERS, InferenceResult
from transop_paper.contenders.conjugate_gradient import solve_conjugate_gradient
from transop_paper.contenders.first_order import (
    proximal_nesterov_step,
    proximal_step,
    solve_by_steps,
    subgradient_nesterov_step,
    subgradient_step,
)

__all__ = ["ALL_SOLVERS", "CONTENDERS"]

CONTENDERS: dict[str, Callable[..., InferenceResult]] = {
    "proximal": partial(solve_by_steps, proximal_step),
    "proximal-nesterov": partial(solve_by_steps, proximal_nesterov_step),
    "subgradient": partial(solve_by_steps, subgradient_step),
    "subgradient-nesterov": partial(solve_by_steps, subgradient_nesterov_step),
    "conjugate-gradient": solve_conjugate_gradient,
}

# The library's own solver first.
ALL_SOLVERS: dict[str, Callable[..., InferenceResult]] = SOLVERS | CONTENDERS
