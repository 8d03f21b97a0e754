"""Coefficient inference: the objective, its solvers, and the result they share."""

from transop.inference.infer import SOLVERS, Solver, infer_coefficients
from transop.inference.lasso import soft_threshold
from transop.inference.objective import SparsityWeight, objective, operator_penalty
from transop.inference.problem import (
    ConvergenceWarning,
    InferenceResult,
    Problem,
    assess,
    relative_miss,
    share_covered,
    solve_in_chunks,
)

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
