"""Nonlinear conjugate gradients with the analytic gradient of earlier work.

The gradient of the exponential is taken in the eigenbasis of each pair's generator, as the
methods before the paper did. That eigendecomposition is what made them slow.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference import InferenceResult, Problem, assess, soft_threshold, solve_in_chunks
from transop.operators import bound_norm, build_generator, differentiate_data_term

_SUFFICIENT = 1e-4
_MAX_HALVINGS = 40

# No step may change a pair's generator by more than this, nor be longer than its inverse.
_LONGEST_STEP = 3.0
_SLOWEST = 1e-6


def solve_conjugate_gradient(
    problem: Problem,
    initial: Float[Tensor, "b m"],
    *,
    max_iterations: int = 800,
    tolerance: float = 1e-5,
) -> InferenceResult:
    """Minimise [OBJECTIVE] by conjugate gradients with a backtracking line search.

    Directions follow Polak and Ribiere on the steepest slope that the l1 term allows; a step
    that would carry a coefficient through zero leaves it there.

    A pair is done when a step changes its coefficients by less than ``tolerance``.
    """
    m, d, _ = problem.operators.shape
    return solve_in_chunks(
        lambda part, start: _iterate(part, start, max_iterations, tolerance),
        problem,
        initial,
        entries_per_pair=24 * d * d + 8 * m,
    )


@torch.no_grad()
def _iterate(
    problem: Problem, initial: Tensor, max_iterations: int, tolerance: float
) -> InferenceResult:
    coefficients = initial.clone()
    iterations = torch.zeros(problem.n_pairs, dtype=torch.int64, device=initial.device)
    converged = torch.zeros(problem.n_pairs, dtype=torch.bool, device=initial.device)
    active = torch.arange(problem.n_pairs, device=initial.device)
    part, c = problem, initial
    slope, direction = torch.zeros_like(c), torch.zeros_like(c)
    reach = c.new_ones(problem.n_pairs)
    for _ in range(max_iterations):
        if active.numel() == 0:
            break
        iterations[active] += 1
        previous, slope = slope, _steepest_slope(part, c)
        direction = _conjugate(slope, previous, direction)
        fresh = (direction == -slope).all(-1) & (reach == 1)
        new, reach = _search(part, c, slope, direction, reach)
        small = torch.linalg.vector_norm(new - c, dim=-1) < tolerance
        # A short step along a mixed direction, or after a short one, proves little: such a pair
        # starts afresh, and only if that is short too it is done.
        done, again = small & fresh, (small & ~fresh).unsqueeze(-1)
        direction, slope = direction.masked_fill(again, 0), slope.masked_fill(again, 0)
        reach = reach.masked_fill(again.squeeze(-1), 1)
        coefficients[active], converged[active] = new, done
        c = new
        if bool(done.any()):
            going = (~done).nonzero().squeeze(-1)
            active, part, c, reach = active[going], part.select(going), c[going], reach[going]
            slope, direction = slope[going], direction[going]
    return assess(problem, coefficients, converged, iterations)


def _steepest_slope(problem: Problem, coefficients: Tensor) -> Tensor:
    """Take the shortest subgradient of [OBJECTIVE]: its negative descends fastest."""
    slope = eigenbasis_slope(problem, coefficients)
    moving = slope + problem.weights * coefficients.sign()
    return torch.where(coefficients != 0, moving, soft_threshold(slope, problem.weights))


def _conjugate(slope: Tensor, previous: Tensor, direction: Tensor) -> Tensor:
    """Mix the last direction into steepest descent, as long as the mix still descends."""
    tiny = torch.finfo(slope.dtype).tiny
    length = previous.square().sum(-1, keepdim=True).clamp_min(tiny)
    share = ((slope * (slope - previous)).sum(-1, keepdim=True) / length).clamp_min(0)
    mixed = share * direction - slope
    descends = (mixed * slope).sum(-1, keepdim=True) < 0
    return torch.where(descends & torch.isfinite(mixed), mixed, -slope)


def _search(
    problem: Problem, c: Tensor, slope: Tensor, direction: Tensor, reach: Tensor
) -> tuple[Tensor, Tensor]:
    """Halve each pair's step until it descends enough, then try the vertex of the parabola.

    Pairs whose every step goes up stay where they are.
    """
    here, steepness = problem.objective(c), (slope * direction).sum(-1)
    side = torch.where(c != 0, c.sign(), direction.sign())
    best, there = c, here
    found = torch.zeros_like(here, dtype=torch.bool)
    speed = bound_norm(build_generator(problem.operators, direction))
    reach = torch.minimum(2 * reach, _LONGEST_STEP / speed.clamp_min(_SLOWEST))
    for _ in range(_MAX_HALVINGS):
        trial, value = _step_to(problem, c, reach, direction, side)
        promised = ((trial - c) * slope).sum(-1)
        good = (value <= here + _SUFFICIENT * promised.clamp_max(0)) & ~found
        best = torch.where(good.unsqueeze(-1), trial, best)
        there = torch.where(good, value, there)
        found |= good
        if bool(found.all()):
            break
        reach = torch.where(found, reach, reach / 2)
    vertex = -steepness * reach**2 / (2 * (there - here - steepness * reach))
    vertex = torch.where((vertex > 0) & (vertex < 4 * reach), vertex, reach)
    trial, value = _step_to(problem, c, vertex, direction, side)
    better = value < there
    return torch.where(better.unsqueeze(-1), trial, best), torch.where(better, vertex, reach)


def _step_to(
    problem: Problem, c: Tensor, reach: Tensor, direction: Tensor, side: Tensor
) -> tuple[Tensor, Tensor]:
    """Go along a direction, leaving at zero what would change its sign."""
    trial = c + reach.unsqueeze(-1) * direction
    trial = torch.where(trial * side > 0, trial, torch.zeros_like(trial))
    return trial, problem.objective(trial)


def eigenbasis_slope(problem: Problem, coefficients: Float[Tensor, "b m"]) -> Float[Tensor, "b m"]:
    """Differentiate the data term with respect to the coefficients, in each eigenbasis.

    [GENERATORGRADIENT] with A = U diag(lambda) U^-1 becomes - U^-T (F o (U^T r (U^-1 z0)^T)) U^T
    where F_ij = (exp lambda_i - exp lambda_j) / (lambda_i - lambda_j).

    A generator without a usable eigenbasis falls back to the series.
    """
    generator = build_generator(problem.operators, coefficients)
    values, vectors = torch.linalg.eig(generator)
    inverse, failed = torch.linalg.inv_ex(vectors)
    start = inverse @ problem.z0.to(values).unsqueeze(-1)
    moved = (vectors @ (values.exp().unsqueeze(-1) * start)).real
    residual = (problem.z1.unsqueeze(-1) - moved).to(values)
    inner = _divided_differences(values) * ((vectors.mT @ residual) @ start.mT)
    gradient = -(inverse.mT @ inner @ vectors.mT).real
    rebuilt = (vectors @ (values.unsqueeze(-1) * inverse)).real
    size = torch.linalg.matrix_norm(generator)
    off = torch.linalg.matrix_norm(rebuilt - generator) > 1e3 * torch.finfo(size.dtype).eps * size
    poor = (off | (failed != 0) | ~torch.isfinite(gradient).all((-2, -1))).nonzero().squeeze(-1)
    if poor.numel():
        part = problem.select(poor)
        gradient[poor] = differentiate_data_term(generator[poor], part.z0, part.z1)[1]
    return torch.matmul(gradient.flatten(1), problem.operators.flatten(1).mT)


def _divided_differences(values: Tensor) -> Tensor:
    """Tabulate F_ij = exp(mean) sinh(x)/x, x half the difference; exact where they coincide."""
    mean = (values.unsqueeze(-1) + values.unsqueeze(-2)) / 2
    half = (values.unsqueeze(-1) - values.unsqueeze(-2)) / 2
    near = half.abs() < 1e-2
    safe = torch.where(near, torch.ones_like(half), half)
    squared = half.square()
    series = 1 + squared / 6 * (1 + squared / 20 * (1 + squared / 42))
    return mean.exp() * torch.where(near, series, safe.sinh() / safe)
