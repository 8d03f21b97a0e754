"""The iterations the paper compares: gradient steps on a decaying schedule, all pairs at once.

The exponential and its gradient come from torch's dense exponential and autograd, as in the
paper: these solvers are here to be compared with, so they run what it ran.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inference import (
    InferenceResult,
    Problem,
    assess,
    soft_threshold,
    solve_in_chunks,
)
from transop.inputs import check_number
from transop.operators import transport

# One step: (problem, coefficients, velocity, step size) -> (new coefficients, new velocity)
Step = Callable[[Problem, Tensor, Tensor, float], tuple[Tensor, Tensor]]

# Momentum 0.9 adds up to 10 gradients, and the authors drop the 1/2 of the squared error.
_MOMENTUM = 0.9
_AUTHORS_FACTOR = 2.0 / (1.0 - _MOMENTUM)


def proximal_step(part: Problem, c: Tensor, v: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Take the forward-backward step of the paper's appendix.

    [PROXIMAL]  c_(k+1) = T_(zeta alpha_k)( c_k - alpha_k grad f(c_k) ),  alpha_k = decay^k alpha_0
    """
    return soft_threshold(c - alpha * _data_slope(part, c), alpha * part.weights), v


def proximal_nesterov_step(
    part: Problem, c: Tensor, v: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """Take the step that produced the published numbers.

    Nesterov momentum on the squared error without its 1/2, then a soft threshold at the bare
    step size. The threshold must be 20 times as large for the fixed point to be that of
    [OBJECTIVE] (10 for the momentum, 2 for the missing 1/2), and so it is here.

    Differs from the paper: its appendix describes the iteration without momentum,
    :func:`proximal_step`.
    """
    slope = 2 * _data_slope(part, c)
    v = _MOMENTUM * v + slope
    threshold = (alpha * _AUTHORS_FACTOR) * part.weights
    return soft_threshold(c - alpha * (slope + _MOMENTUM * v), threshold), v


def subgradient_step(part: Problem, c: Tensor, v: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Take a plain gradient step on all of [OBJECTIVE], the l1 term included.

    Coefficients hover around zero without reaching it.
    """
    return c - alpha * (_data_slope(part, c) + part.weights * c.sign()), v


def subgradient_nesterov_step(
    part: Problem, c: Tensor, v: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """Take a gradient step with Nesterov momentum, the l1 term included."""
    slope = _data_slope(part, c) + part.weights * c.sign()
    v = _MOMENTUM * v + slope
    return c - alpha * (slope + _MOMENTUM * v), v


def solve_by_steps(
    step: Step,
    problem: Problem,
    initial: Float[Tensor, "b m"],
    *,
    max_iterations: int = 800,
    tolerance: float = 1e-5,
    step_size: float = 1e-2,
    decay: float = 0.985,
) -> InferenceResult:
    """Minimise [OBJECTIVE] by steps of shrinking size.

    Differs from the paper: every pair stops by its own change, not the whole batch by its mean;
    and with momentum a pair is done only when its velocity, times the step size, has stopped
    changing as well: while momentum builds up, coefficients may rest at zero.

    Step k has the size ``step_size * decay**k``. A pair is done when |c_(k+1) - c_k| falls
    below ``tolerance``.
    """
    step_size = check_number("step_size", step_size, "positive; the paper uses 0.01", open=True)
    decay = check_number(
        "decay", decay, "above 0, at most 1; the paper uses 0.985", high=1, open=True
    )
    schedule = [step_size * decay**k for k in range(max_iterations)]
    d = problem.z0.shape[-1]
    return solve_in_chunks(
        lambda part, start: _iterate(part, start, step, schedule, tolerance),
        problem,
        initial,
        # The dense exponential's backward pass exponentiates matrices of twice the size.
        entries_per_pair=64 * d * d,
    )


@torch.no_grad()
def _iterate(
    problem: Problem, initial: Tensor, step: Step, schedule: list[float], tolerance: float
) -> InferenceResult:
    coefficients = initial.clone()
    iterations = torch.zeros(problem.n_pairs, dtype=torch.int64, device=initial.device)
    converged = torch.zeros(problem.n_pairs, dtype=torch.bool, device=initial.device)
    active = torch.arange(problem.n_pairs, device=initial.device)
    part, c, v = problem, initial, torch.zeros_like(initial)
    for alpha in schedule:
        if active.numel() == 0:
            break
        before = v
        new, v = step(part, c, v, alpha)
        iterations[active] += 1
        # A pair that runs away keeps its last finite coefficients and is not converged.
        finite = torch.isfinite(new).all(-1)
        # Momentum needs some steps to build up, in which coefficients may rest at zero.
        change = torch.maximum((new - c).norm(dim=-1), alpha * (v - before).norm(dim=-1))
        small = change < tolerance
        c = torch.where(finite.unsqueeze(-1), new, c)
        coefficients[active] = c
        converged[active] = small & finite
        if not bool((finite & ~small).all()):
            going = (finite & ~small).nonzero().squeeze(-1)
            active, c, v, part = active[going], c[going], v[going], part.select(going)
    return assess(problem, coefficients, converged, iterations)


def _data_slope(problem: Problem, coefficients: Tensor) -> Tensor:
    """Differentiate the data term with respect to the coefficients, by autograd."""
    with torch.enable_grad():
        c = coefficients.detach().requires_grad_()
        missed = problem.z1 - transport(problem.operators, c, problem.z0, method="dense")
        (slope,) = torch.autograd.grad(missed.square().sum() / 2, c)
    return slope
