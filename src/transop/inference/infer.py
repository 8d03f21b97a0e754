"""Coefficient inference: checks, starting points, restarts, and guarantees for every solver."""

import inspect
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError, UserError, show
from transop.inference.gauss_newton import solve_gauss_newton
from transop.inference.objective import SparsityWeight, expand_weight
from transop.inference.problem import (
    ConvergenceWarning,
    InferenceResult,
    Problem,
    map_fields,
    relative_miss,
)
from transop.inputs import (
    check_dense,
    check_dictionary,
    check_finite,
    check_generator,
    check_number,
    check_precise,
    check_whole,
)

# (problem, first coefficients, options by name) -> result
Solver = Callable[..., InferenceResult]

# The paper draws c_0 from a Gaussian of variance 4e-4.
_PAPER_SPREAD = 0.02

# A start that is this many times worse than standing still is not worth starting from.
_HOPELESS = 1e3

# Operators smaller than this all together move nothing that could be seen.
_SMALLEST_DICTIONARY = 1e-12


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
    solve = _choose_solver(solver)
    limits = {"max_iterations": max_iterations, "tolerance": tolerance}
    given = {name: value for name, value in limits.items() if value is not None}
    options = _check_options(solve, given | solver_options)
    restarts = check_whole("restarts", restarts, least=1, most=10_000)
    check_generator(generator)
    _check_tensors(operators, z0, z1, initial)
    zeros = z0.new_zeros(z0.shape[0], operators.shape[0])
    problem = Problem(
        operators.detach(), z0.detach(), z1.detach(), expand_weight(sparsity_weight, zeros)
    )
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    best: InferenceResult | None = None
    for attempt in range(restarts):
        start = zeros if initial is None else initial.detach()
        if attempt > 0 or (initial is None and solve is not solve_gauss_newton):
            start = _draw_start(problem, attempt, generator)
        if start is not zeros:
            start = _abandon_hopeless(problem, start)
        found = solve(problem, start, **options)
        if not isinstance(found, InferenceResult):
            raise UserError(f"solver returned {show(found)}; it must return an InferenceResult")
        best = found if best is None else _keep_better(best, found)
    assert best is not None
    best = _never_worse_than_standing_still(problem, best)
    _warn_unconverged(best, _name_of(solver))
    return best


def _choose_solver(solver: str | Solver) -> Solver:
    if callable(solver):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise UserError(
            f"solver = {show(solver)} is unknown; choose from {sorted(SOLVERS)} or pass a function"
        )
    return SOLVERS[solver]


def _name_of(solver: str | Solver) -> str:
    if isinstance(solver, str):
        return solver
    return str(getattr(solver, "__name__", type(solver).__name__))


def _check_options(solve: Solver, options: dict[str, Any]) -> dict[str, Any]:
    """Refuse what the solver does not take; give numbers that compiled code sees their type."""
    known = _options_of(solve)
    if known is None:
        raise UserError(
            f"solver = {show(solve)} takes no problem and first coefficients; pass a name or a "
            "function of these two"
        )
    for option in options:
        if option not in known:
            raise UserError(f"solver has no option {option!r}; it takes {known}")
    checked = dict(options)
    if "max_iterations" in options:
        limit = options["max_iterations"]
        checked["max_iterations"] = check_whole("max_iterations", limit, least=1, most=1_000_000)
    if "tolerance" in options:
        tolerance = options["tolerance"]
        checked["tolerance"] = check_number("tolerance", tolerance, "a positive number", open=True)
    return checked


@cache
def _options_of(solver: Solver) -> list[str] | None:
    """Name what a solver takes beside the problem and the start; None if it takes neither."""
    try:
        signature = inspect.signature(solver)
        signature.bind_partial(None, None)
    except (TypeError, ValueError):
        return None
    return list(signature.parameters)[2:]


def _check_tensors(operators: Tensor, z0: Tensor, z1: Tensor, initial: Tensor | None) -> None:
    given = {} if initial is None else {"initial": initial}
    check_dense(operators=operators, z0=z0, z1=z1, **given)
    if z0.ndim != 2 or z0.shape != z1.shape:
        raise TensorError(
            f"z0 has shape {tuple(z0.shape)} and z1 {tuple(z1.shape)}; pass two tensors of one "
            "shape (pairs, dimensions), for a single pair z0[None]"
        )
    stand_in = z0.new_empty(z0.shape[0], len(operators) if operators.ndim else 0)
    check_dictionary(operators, stand_in, z0=z0, z1=z1)
    check_precise(operators=operators, z0=z0, z1=z1)
    if initial is not None and (
        initial.shape != stand_in.shape or initial.dtype != z0.dtype or initial.device != z0.device
    ):
        raise TensorError(
            f"initial is {initial.dtype} of shape {tuple(initial.shape)} on {initial.device}; "
            f"pass {z0.dtype} of shape {tuple(stand_in.shape)} on {z0.device}"
        )
    check_finite(operators=operators, z0=z0, z1=z1, **given)


def _draw_start(problem: Problem, attempt: int, generator: torch.Generator) -> Tensor:
    """Draw the first start close to zero as in the paper, later ones wherever paths may lead."""
    shape = (problem.n_pairs, problem.operators.shape[0])
    draw = torch.randn(
        shape, generator=generator, device=generator.device, dtype=problem.z0.dtype
    ).to(problem.z0.device)
    if attempt == 0:
        return draw * _PAPER_SPREAD
    # The generator of such a start has Frobenius norm about 1, whatever the operators' size.
    size = float(torch.linalg.vector_norm(problem.operators))
    return draw / max(size, _SMALLEST_DICTIONARY)


def _abandon_hopeless(problem: Problem, start: Tensor) -> Tensor:
    still = (problem.z1 - problem.z0).square().sum(-1) / 2
    tiny = torch.finfo(start.dtype).eps * problem.z1.square().sum(-1)
    hopeful = problem.objective(start) <= _HOPELESS * (still + tiny)
    return torch.where(hopeful.unsqueeze(-1), start, torch.zeros_like(start))


def _keep_better(one: InferenceResult, other: InferenceResult) -> InferenceResult:
    """Choose per pair; a finite objective always beats one that is not."""
    better = (other.objective < one.objective) | ~torch.isfinite(one.objective)
    return _merge(better, other, one)


def _merge(where: Tensor, chosen: InferenceResult, otherwise: InferenceResult) -> InferenceResult:
    return map_fields(
        lambda a, b: torch.where(where if a.ndim == 1 else where.unsqueeze(-1), a, b),
        chosen,
        otherwise,
    )


def _never_worse_than_standing_still(problem: Problem, found: InferenceResult) -> InferenceResult:
    """Replace what is not finite, or worse than zero coefficients, by zero coefficients."""
    missed = problem.z1 - problem.z0
    still = missed.square().sum(-1) / 2
    # A comparison with NaN is false, so a broken objective counts as bad too.
    good = found.objective <= still
    if bool(good.all()) and math.isfinite(float(found.coefficients.sum())):
        return found
    good &= torch.isfinite(found.coefficients).all(-1)
    standing = InferenceResult(
        coefficients=torch.zeros_like(found.coefficients),
        objective=still,
        residual=relative_miss(torch.linalg.vector_norm(missed, dim=-1), problem.z1),
        # Zero coefficients may seem a rounding error worse than themselves: that is no failure.
        converged=found.converged & (found.coefficients == 0).all(-1),
        iterations=found.iterations,
    )
    return _merge(good, found, standing)


def _warn_unconverged(found: InferenceResult, solver: str) -> None:
    n_failed = int((~found.converged).sum())
    if n_failed:
        warnings.warn(
            f"{n_failed} of {found.converged.numel()} pairs did not converge with solver "
            f"{solver!r}; see result.converged, or raise max_iterations or sparsity_weight",
            ConvergenceWarning,
            stacklevel=3,
        )
