"""The default solver: picks the back end of proximal Gauss-Newton that suits the device."""

import dataclasses
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError
from transop.inference.gauss_newton_torch import solve_batched
from transop.inference.problem import Problem
from transop.inference.result import InferenceResult

_A_FAIR_CHANCE = 50  # a limit below this is meant to stop early, not to be made up for

Backend = Literal["auto", "compiled", "torch"]


def solve_gauss_newton(
    problem: Problem,
    initial: Float[Tensor, "b m"],
    *,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    backend: Backend = "auto",
) -> InferenceResult:
    """Minimise [OBJECTIVE] by proximal Gauss-Newton.

    Args:
        problem: the pairs.
        initial: where the coefficients start.
        max_iterations: linearisations per pair.
        tolerance: a pair is done when its model promises to lower the objective by less than
            this share.
        backend: ``"compiled"`` runs pairs in parallel on the CPU, ``"torch"`` runs them as one
            batch on any device, ``"auto"`` takes the first where it can and hands what has not
            converged by then to the second, which is slower and more patient.
    """
    if backend not in ("auto", "compiled", "torch"):
        raise UserError(f"backend={backend!r} is unknown; choose 'auto', 'compiled' or 'torch'")
    kernel = _compiled_kernel() if problem.z0.device.type == "cpu" else None
    if backend == "compiled" and kernel is None:
        raise UserError(
            f"backend='compiled' runs on the CPU with numba only, and the data are on "
            f"{problem.z0.device}; use backend='torch'"
        )
    if backend == "torch" or kernel is None:
        return solve_batched(problem, initial, max_iterations=max_iterations, tolerance=tolerance)
    result = _solve_compiled(kernel, problem, initial, max_iterations, tolerance)
    if backend == "auto" and max_iterations >= _A_FAIR_CHANCE and not bool(result.converged.all()):
        return _finish(problem, result, max_iterations, tolerance)
    return result


def _finish(
    problem: Problem, result: InferenceResult, max_iterations: int, tolerance: float
) -> InferenceResult:
    """Go on from where the compiled back end gave up: rare, with operators almost alike."""
    left = (~result.converged).nonzero()[:, 0]
    more = solve_batched(
        problem.select(left),
        result.coefficients[left],
        max_iterations=max_iterations,
        tolerance=tolerance,
    )
    better = more.objective <= result.objective[left]
    rows = left[better]
    fields = {}
    for field in dataclasses.fields(InferenceResult):
        merged = getattr(result, field.name).clone()
        merged[rows] = getattr(more, field.name)[better].to(merged)
        fields[field.name] = merged
    fields["iterations"][rows] += result.iterations[rows]
    return InferenceResult(**fields)


@lru_cache(maxsize=1)
def _compiled_kernel() -> ModuleType | None:
    try:
        return import_module("transop.inference.gauss_newton_compiled")
    except ImportError:
        return None


def _solve_compiled(
    kernel: ModuleType,
    problem: Problem,
    initial: Tensor,
    max_iterations: int,
    tolerance: float,
) -> InferenceResult:
    arrays = (problem.operators, problem.z0, problem.z1, problem.weights, initial)
    coefficients, objective, residual, converged, iterations = kernel.solve(
        *(tensor.detach().contiguous().numpy() for tensor in arrays),
        max_iterations,
        tolerance,
        torch.get_num_threads(),
    )
    return InferenceResult(
        coefficients=torch.from_numpy(coefficients),
        objective=torch.from_numpy(objective),
        residual=torch.from_numpy(residual),
        converged=torch.from_numpy(converged),
        iterations=torch.from_numpy(iterations),
    )
