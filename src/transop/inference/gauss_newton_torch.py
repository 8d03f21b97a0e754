"""Proximal Gauss-Newton for all pairs at once, in plain torch: the back end for any device."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transop.inference.lasso import minimise_lasso, soft_threshold
from transop.inference.problem import (
    InferenceResult,
    Problem,
    map_fields,
    relative_miss,
    solve_in_chunks,
)
from transop.operators.derivatives import transport_jacobian
from transop.operators.series import bound_norm, build_generator

# No step may change a pair's generator by more than this: a quadratic model is blind beyond.
_LONGEST_STEP = 3.0

_FIRST_DAMPING = 1e-3
_SMALLEST_DAMPING = 1e-6
_LARGEST_DAMPING = 1e8

# The optimality conditions hold when they are violated by no more than twice the square root of
# the tolerance, as a share; promises are assumed to shrink by at least this factor per step.
_VIOLATION_PER_TOLERANCE = 4.0
_SLOWEST_RATE = 0.99
# Noise levels: a hoped-for decrease below that may not show.
_UNSEEN = 10.0


@dataclass
class _State:
    """Everything known about each pair at its current coefficients."""

    coefficients: Float[Tensor, "b m"]
    missed: Float[Tensor, "b d"]
    jacobian: Float[Tensor, "b m d"]
    objective: Float[Tensor, " b"]
    damping: Float[Tensor, " b"]
    hoped: Float[Tensor, " b"]  # decrease promised at the coefficients before these
    rejected: Bool[Tensor, " b"]  # whether the last step from here was

    def select(self, chosen: Int[Tensor, " k"]) -> "_State":
        return map_fields(lambda tensor: tensor[chosen], self)

    def store(self, chosen: Int[Tensor, " k"], other: "_State") -> None:
        for field in fields(self):
            getattr(self, field.name)[chosen] = getattr(other, field.name)


@torch.no_grad()
def solve_batched(
    problem: Problem,
    initial: Float[Tensor, "b m"],
    *,
    max_iterations: int,
    tolerance: float,
    spent: Int[Tensor, " b"] | None = None,
) -> InferenceResult:
    """Minimise [OBJECTIVE] over the coefficients of every pair by damped Gauss-Newton steps.

    Around the current coefficients the transport is replaced by its linearisation [JACOBIAN];
    the l1 problem this leaves is solved by coordinate descent; Levenberg-Marquardt damping
    makes every accepted step a descent. A pair is done when no decrease above ``tolerance`` times
    its objective is to be expected and the optimality conditions hold; it leaves the batch.
    ``spent`` are iterations that count against the limit because another back end used them.
    """
    m, d, _ = problem.operators.shape
    used = torch.zeros_like(initial[:, :0].sum(-1), dtype=torch.int64) if spent is None else spent
    return solve_in_chunks(
        lambda part, start, used: _solve(part, start, used, max_iterations, tolerance),
        problem,
        initial,
        used,
        entries_per_pair=3 * d * d + 6 * m * d + 4 * m * m,
        entries=2**24,
    )


def _solve(
    problem: Problem, initial: Tensor, spent: Tensor, max_iterations: int, tolerance: float
) -> InferenceResult:
    first = initial.new_full((problem.n_pairs,), _FIRST_DAMPING)
    # Pairs that come from another back end were slow there: one small promise is not enough.
    hoped = torch.where(spent > 0, torch.zeros_like(first), torch.full_like(first, torch.inf))
    state = _linearise(problem, initial.clone(), first, hoped)
    iterations = spent.clone()
    converged = torch.zeros_like(iterations, dtype=torch.bool)
    active = (iterations < max_iterations).nonzero()[:, 0]
    while active.numel():
        iterations[active] += 1
        part, arrived, stuck = _advance(problem.select(active), state.select(active), tolerance)
        state.store(active, part)
        converged[active] = arrived
        active = active[~(arrived | stuck | (iterations[active] >= max_iterations))]
    return InferenceResult(
        coefficients=state.coefficients,
        objective=state.objective,
        residual=relative_miss(torch.linalg.vector_norm(state.missed, dim=-1), problem.z1),
        converged=converged,
        iterations=iterations,
    )


def _linearise(problem: Problem, coefficients: Tensor, damping: Tensor, hoped: Tensor) -> _State:
    moved, jacobian = transport_jacobian(problem.operators, coefficients, problem.z0)
    missed = problem.z1 - moved
    cost = problem.cost(coefficients, missed)
    never = torch.zeros_like(cost, dtype=torch.bool)
    return _State(coefficients, missed, jacobian, cost, damping, hoped, never)


def _advance(
    problem: Problem, state: _State, tolerance: float
) -> tuple[_State, Bool[Tensor, " b"], Bool[Tensor, " b"]]:
    """Try one step for every pair; tell which have arrived and which can get no further."""
    step, whole = _propose(problem, state)
    promised = _promise(problem, state, step)
    # Damping by a factor shortens the promise by about as much; undo that before judging it.
    hoped = promised * (1 + state.damping)
    arrived = _expects_little(problem, state, hoped, tolerance) & _is_stationary(
        problem, state, tolerance
    )
    trial = _linearise(problem, state.coefficients + step, state.damping, hoped)
    gain = (state.objective - trial.objective) / promised
    better = torch.isfinite(trial.objective) & (trial.objective < state.objective)
    eased = torch.where(gain > 0.5, state.damping / 5, state.damping)
    eased = torch.where(gain < 0.2, state.damping * 2, eased)
    damping = torch.where(better, eased, state.damping * 6).clamp_min(_SMALLEST_DAMPING)
    state.damping, trial.damping, state.rejected = damping, damping, ~better
    state.store(better.nonzero().squeeze(-1), trial.select(better.nonzero().squeeze(-1)))
    return state, arrived & whole, damping > _LARGEST_DAMPING


def _expects_little(
    problem: Problem, state: _State, hoped: Tensor, tolerance: float
) -> Bool[Tensor, " b"]:
    """Tell where all further steps together promise less than the tolerance or the rounding.

    Promises that shrink slowly add up: in a long valley one step says little.
    """
    noise = _noise(problem, state)
    rate = (hoped / state.hoped).nan_to_num(nan=_SLOWEST_RATE).clamp(0, _SLOWEST_RATE)
    little = hoped / (1 - rate) <= torch.maximum(tolerance * state.objective, noise)
    return little | (state.rejected & (hoped <= _UNSEEN * noise))


def _is_stationary(problem: Problem, state: _State, tolerance: float) -> Bool[Tensor, " b"]:
    """Check the optimality conditions, each in units of what stands on both sides of it.

    [STATIONARITY]  slope_m = -w_m sign(c_m) where c_m is not zero, |slope_m| <= w_m where it is
    """
    slope = -(state.jacobian @ state.missed.unsqueeze(-1)).squeeze(-1)
    used = slope + problem.weights * state.coefficients.sign()
    off = torch.where(state.coefficients != 0, used, soft_threshold(slope, problem.weights))
    column = state.jacobian.square().sum(-1)
    unit = problem.weights.square() + state.missed.square().sum(-1, keepdim=True) * column
    floor = 2 * _UNSEEN * _noise(problem, state).unsqueeze(-1) * column
    limit = torch.add(_VIOLATION_PER_TOLERANCE * tolerance * unit, floor)
    return torch.all(off.square() <= limit, -1)


def _promise(problem: Problem, state: _State, step: Tensor) -> Float[Tensor, " b"]:
    """Compute how much the linearised objective falls, as a difference that keeps its digits."""
    move = (step.unsqueeze(1) @ state.jacobian).squeeze(1)
    data = (move * (state.missed - move / 2)).sum(-1)
    shrink = state.coefficients.abs() - (state.coefficients + step).abs()
    return data + (problem.weights * shrink).sum(-1)


def _noise(problem: Problem, state: _State) -> Float[Tensor, " b"]:
    """Estimate which changes of the objective are lost in its rounding.

    Every entry of the miss is off by some eps |z1|, and its square by that times the miss.
    """
    eps = torch.finfo(state.objective.dtype).eps
    blur = 8 * eps * torch.linalg.vector_norm(problem.z1, dim=-1)
    missed = torch.linalg.vector_norm(state.missed, dim=-1)
    return torch.add(4 * eps * state.objective, blur * (missed + blur))


def _propose(problem: Problem, state: _State) -> tuple[Float[Tensor, "b m"], Bool[Tensor, " b"]]:
    """Solve the linearised problem; tell where the step did not have to be cut short."""
    curvature = state.jacobian @ state.jacobian.mT
    diagonal = curvature.diagonal(dim1=-2, dim2=-1)
    tiny = torch.finfo(curvature.dtype).tiny ** 0.5
    ridge = (state.damping * diagonal.mean(-1)).clamp_min(tiny)
    diagonal += ridge.unsqueeze(-1)
    centre = (curvature @ state.coefficients.unsqueeze(-1)).squeeze(-1)
    pull = centre + (state.jacobian @ state.missed.unsqueeze(-1)).squeeze(-1)
    target = minimise_lasso(curvature, pull, problem.weights, state.coefficients)
    step = target - state.coefficients
    length = bound_norm(build_generator(problem.operators, step))
    share = (_LONGEST_STEP / length.clamp_min(_LONGEST_STEP)).unsqueeze(-1)
    # An overflowing model proposes nonsense; standing still lets the damping grow instead.
    usable = torch.isfinite(length).unsqueeze(-1)
    return torch.where(usable, step * share, torch.zeros_like(step)), length <= _LONGEST_STEP
