"""The default solver: picks the back end of proximal Gauss-Newton."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError
from transop.inference.gauss_newton_torch import solve_batched
from transop.inference.problem import InferenceResult, Problem, map_fields

DEFAULT_TOLERANCE = 1e-6  # of both back ends
DEFAULT_MAX_ITERATIONS = 160

# A limit below this is meant to stop early: nothing is left over for the second back end.
_FAIR_CHANCE = 50
# Share of the limit that the compiled back end may use up before the other one takes over.
_FIRST_SHARE = 0.6

Backend = Literal["auto", "compiled", "torch"]


def solve_gauss_newton(
    problem: Problem,
    initial: Float[Tensor, "b m"],
    *,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    tolerance: float = DEFAULT_TOLERANCE,
    backend: Backend = "auto",
) -> InferenceResult:
    """Minimise [OBJECTIVE] by proximal Gauss-Newton.

    Args:
        problem: the pairs, on any device.
        initial: where the coefficients start.
        max_iterations: linearisations per pair, both back ends and a repeated start included.
        tolerance: a pair has converged when its model promises to lower the objective by less
            than this share, and the optimality conditions hold to about its square root.
        backend: ``"compiled"`` runs on the CPU, whatever the device of the tensors: a batch is
            tens of kilobytes, and a GPU would start thousands of tiny kernels. ``"torch"`` runs
            pairs as one batch on their own device. ``"auto"`` takes the first and hands what has
            not converged to the second, which is slower and more patient.
    """
    if backend not in ("auto", "compiled", "torch"):
        raise UserError(f"backend={backend!r} is unknown; choose 'auto', 'compiled' or 'torch'")
    if backend == "torch":
        return solve_batched(problem, initial, max_iterations=max_iterations, tolerance=tolerance)
    device, cpu = problem.z0.device, torch.device("cpu")
    problem, initial = problem.to(cpu), initial.to(cpu)
    patient = backend == "auto" and max_iterations >= _FAIR_CHANCE
    first = int(_FIRST_SHARE * max_iterations) if patient else max_iterations
    result = _solve_compiled(problem, initial, first, tolerance)
    if patient and not bool(result.converged.all()):
        result = _finish(problem, result, max_iterations, tolerance)
    return result.to(device)


def _finish(
    problem: Problem, result: InferenceResult, max_iterations: int, tolerance: float
) -> InferenceResult:
    """Go on from where the compiled back end gave up: rare, with operators almost alike.

    In double precision, whatever the type of the points: on the long paths that are left, single
    precision cannot tell a minimum from a shallow valley.
    """
    left = (~result.converged).nonzero()[:, 0]
    more = solve_batched(
        problem.select(left).double(),
        result.coefficients[left].double(),
        max_iterations=max_iterations,
        tolerance=tolerance,
        spent=result.iterations[left],
    )
    better = more.objective <= result.objective[left]
    rows = left[better]
    return map_fields(lambda old, new: old.index_copy(0, rows, new[better].to(old)), result, more)


def _solve_compiled(
    problem: Problem, initial: Tensor, max_iterations: int, tolerance: float
) -> InferenceResult:
    # Not at the top: importing the compiler takes longer than everything else here.
    from transop.inference.gauss_newton_compiled import solve

    tensors = (problem.operators, problem.z0, problem.z1, problem.weights, initial)
    operators, z0, z1, weights, start = (t.detach().contiguous().numpy() for t in tensors)
    n_threads = torch.get_num_threads()
    found = solve(operators, z0, z1, weights, start, max_iterations, tolerance, n_threads)
    return InferenceResult(*(torch.from_numpy(array) for array in found))
