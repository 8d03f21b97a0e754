"""Solvers against problems whose answer is known, and against each other."""

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transop.inference import infer_coefficients, objective
from transop.inference.lasso import minimise_lasso, soft_threshold
from transop.inference.problem import Problem
from transop.operators import (
    build_generator,
    differentiate_data_term,
    transport,
    transport_jacobian,
)
from transop_paper.contenders import ALL_SOLVERS, CONTENDERS

WEIGHT = 0.3

# What each solver needs to get to the bottom of a convex problem of curvature one.
PATIENT = {
    "gauss-newton": {"tolerance": 1e-12},
    "proximal": {"decay": 1.0, "step_size": 1.0, "tolerance": 1e-8},
    "proximal-nesterov": {"decay": 1.0, "step_size": 0.03, "tolerance": 1e-8},
    "subgradient": {"decay": 0.98, "step_size": 1.0},
    "subgradient-nesterov": {"decay": 0.98, "step_size": 0.2},
    "conjugate-gradient": {"tolerance": 1e-8},
}


def convex_pairs():
    """Operators that carry the first half of the space into the second and then vanish.

    Products of two are zero, so expm(A) z = z + A z: the objective is an ordinary lasso.
    """
    generator = torch.Generator().manual_seed(7)
    operators = torch.zeros(3, 24, 24, dtype=torch.float64)
    operators[:, 12:, :12] = torch.randn(3, 12, 12, generator=generator, dtype=torch.float64)
    z0 = torch.randn(3, 24, generator=generator, dtype=torch.float64)
    _, jacobian = transport_jacobian(operators, torch.zeros(3, 3).double(), z0)
    operators /= float(torch.linalg.matrix_norm(jacobian, 2).max())
    z1 = z0 + torch.randn(3, 24, generator=generator, dtype=torch.float64)
    return operators, z0, z1


def solve_by_splitting(matrix, target, weights):
    """Minimise 1/2|target - matrix x|^2 + weights|x| over x = p - n, p and n not negative."""
    m = matrix.shape[1]

    def cost(parts):
        x = parts[:m] - parts[m:]
        miss = matrix @ x - target
        slope = matrix.T @ miss
        value = 0.5 * miss @ miss + weights @ (parts[:m] + parts[m:])
        return value, np.concatenate([slope + weights, weights - slope])

    best = scipy.optimize.minimize(
        cost,
        np.full(2 * m, 0.1),
        jac=True,
        bounds=[(0, None)] * (2 * m),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    return best.x[:m] - best.x[m:], best.fun


@pytest.mark.parametrize("solver", sorted(ALL_SOLVERS))
def test_every_solver_finds_the_minimum_of_a_convex_problem(solver):
    operators, z0, z1 = convex_pairs()
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=WEIGHT, solver=ALL_SOLVERS[solver], **PATIENT[solver]
    )
    _, jacobian = transport_jacobian(operators, torch.zeros(3, 3).double(), z0)
    precision = 1e-3 if "subgradient" in solver else 1e-7
    for pair in range(3):
        _, lowest = solve_by_splitting(
            jacobian[pair].mT.numpy(), (z1 - z0)[pair].numpy(), np.full(3, WEIGHT)
        )
        assert float(found.objective[pair]) == pytest.approx(lowest, rel=precision)
    if "subgradient" not in solver:
        zeros = found.coefficients == 0
        assert bool(zeros.any())
        assert not bool(zeros.all())


def curved_pairs(n_pairs=8, *, noise=0.03, dtype=torch.float64):
    generator = torch.Generator().manual_seed(11)
    operators = torch.randn(4, 5, 5, generator=generator, dtype=dtype)
    operators /= torch.linalg.vector_norm(operators, dim=(1, 2), keepdim=True)
    coefficients = 0.4 * torch.randn(n_pairs, 4, generator=generator, dtype=dtype)
    z0 = torch.randn(n_pairs, 5, generator=generator, dtype=dtype)
    z1 = transport(operators, coefficients, z0)
    return operators, z0, z1 + noise * torch.randn(n_pairs, 5, generator=generator, dtype=dtype)


def test_gauss_newton_finds_what_scipy_finds_on_curved_problems():
    operators, z0, z1 = curved_pairs(4)
    found = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, tolerance=1e-12)
    for pair in range(4):

        def cost(parts, pair=pair):
            c = torch.tensor(parts[:4] - parts[4:])[None].requires_grad_()
            value = objective(operators, c, z0[pair : pair + 1], z1[pair : pair + 1], 0.0)
            slope = torch.autograd.grad(value, c)[0][0].numpy()
            return float(value.detach()) + 0.02 * parts.sum(), np.concatenate(
                [slope, -slope]
            ) + 0.02

        best = scipy.optimize.minimize(
            cost,
            np.full(8, 1e-3),
            jac=True,
            bounds=[(0, None)] * 8,
            method="L-BFGS-B",
            options={"ftol": 1e-14, "gtol": 1e-9},
        )
        assert float(found.objective[pair]) <= best.fun * (1 + 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight", [0.0, 0.001, 0.02, 0.3])
def test_both_back_ends_of_gauss_newton_agree(weight, dtype):
    operators, z0, z1 = curved_pairs(30, dtype=dtype)
    options = {"sparsity_weight": weight, "tolerance": 1e-7}
    batched = infer_coefficients(operators, z0, z1, backend="torch", **options)
    compiled = infer_coefficients(operators, z0, z1, backend="compiled", **options)
    floor = 1e-6 * float(z1.square().sum(-1).max())
    torch.testing.assert_close(batched.objective, compiled.objective, rtol=1e-4, atol=floor)
    if weight > 0 and dtype == torch.float64:
        torch.testing.assert_close(batched.coefficients, compiled.coefficients, rtol=0, atol=5e-3)


@pytest.mark.parametrize("solver", ["proximal-nesterov", "conjugate-gradient"])
def test_the_contenders_mean_the_same_weight_as_gauss_newton(solver):
    operators, z0, z1 = curved_pairs()
    ours = infer_coefficients(operators, z0, z1, sparsity_weight=0.02)
    theirs = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, solver=CONTENDERS[solver])
    assert float(ours.objective.mean()) <= 1.001 * float(theirs.objective.mean())
    assert float(theirs.objective.mean()) <= 1.05 * float(ours.objective.mean())


def test_the_proximal_solver_takes_exactly_the_steps_of_the_papers_appendix():
    operators, z0, z1 = curved_pairs(3)
    start = torch.full((3, 4), 0.1, dtype=torch.float64)
    problem = Problem(operators, z0, z1, torch.full_like(start, 0.5))
    found = CONTENDERS["proximal"](problem, start, max_iterations=7)
    c = start
    for k in range(7):
        alpha = 0.985**k * 1e-2
        c = c.detach().requires_grad_()
        miss = z1 - torch.stack(
            [
                torch.linalg.matrix_exp((row[:, None, None] * operators).sum(0)) @ z
                for row, z in zip(c, z0, strict=True)
            ]
        )
        (slope,) = torch.autograd.grad(0.5 * (miss**2).sum(), c)
        c = c - alpha * slope
        c = torch.sign(c) * torch.clamp(c.abs() - 0.5 * alpha, min=0)
    torch.testing.assert_close(found.coefficients, c.detach())


def test_proximal_nesterov_takes_exactly_the_steps_of_torchs_own_optimiser():
    operators, z0, z1 = curved_pairs(3)
    start = torch.full((3, 4), 0.1, dtype=torch.float64)
    problem = Problem(operators, z0, z1, torch.full_like(start, 0.02))
    found = CONTENDERS["proximal-nesterov"](problem, start, max_iterations=7)
    c = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([c], lr=1e-2, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.985)
    for _ in range(7):
        optimiser.zero_grad()
        (z1 - transport(operators, c, z0, method="dense")).square().sum().backward()
        rate = optimiser.param_groups[0]["lr"]
        optimiser.step()
        with torch.no_grad():
            c.copy_(torch.sign(c) * torch.clamp(c.abs() - 20 * 0.02 * rate, min=0))
        schedule.step()
    torch.testing.assert_close(found.coefficients, c.detach())


@given(st.floats(-5, 5), st.floats(0, 3))
def test_the_soft_threshold_is_its_scalar_definition(value, threshold):
    expected = np.sign(value) * max(abs(value) - threshold, 0)
    value, threshold = torch.tensor([value, threshold], dtype=torch.float64)
    found = soft_threshold(value, threshold)
    assert float(found) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 5), st.floats(1e-3, 2.0))
@settings(max_examples=15, deadline=None)
def test_the_small_l1_problem_is_solved_to_optimality(seed, m, d, weight):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(3, m, d, generator=generator, dtype=torch.float64)
    curvature = root @ root.mT + 1e-4 * torch.eye(m, dtype=torch.float64)
    pull = torch.randn(3, m, generator=generator, dtype=torch.float64)
    start = torch.randn(3, m, generator=generator, dtype=torch.float64)
    before = start.clone()
    weights = torch.full_like(pull, weight)
    x = minimise_lasso(curvature, pull, weights, start, max_rounds=80, tolerance=1e-16)
    slope = torch.einsum("bij,bj->bi", curvature, x) - pull
    torch.testing.assert_close(
        slope[x != 0], -weights[x != 0] * x[x != 0].sign(), atol=1e-6, rtol=0
    )
    assert bool((slope.abs() <= weights + 1e-6).all())
    assert torch.equal(start, before)


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(1, 4),
    st.floats(-6, 1.7),
    st.floats(-4, 0.5),
    st.sampled_from([torch.float32, torch.float64]),
)
@settings(max_examples=20, deadline=None)
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_gauss_newton_keeps_its_promises_at_every_shape_and_scale(
    seed, m, d, n_pairs, log_norm, log_weight, dtype
):
    generator = torch.Generator().manual_seed(seed)
    operators = torch.randn(m, d, d, generator=generator, dtype=dtype) * 10**log_norm
    z0 = torch.randn(n_pairs, d, generator=generator, dtype=dtype)
    z1 = torch.randn(n_pairs, d, generator=generator, dtype=dtype)
    weight = 10**log_weight
    for backend in ("torch", "compiled"):
        found = infer_coefficients(operators, z0, z1, sparsity_weight=weight, backend=backend)
        assert bool(torch.isfinite(found.coefficients).all())
        assert bool((found.objective <= (z1 - z0).square().sum(-1) / 2).all())
        again = objective(operators, found.coefficients, z0, z1, weight)
        torch.testing.assert_close(found.objective, again, rtol=2e-3, atol=1e-6)


def long_path_problem(seed):
    """One pair and operators of norm up to eight: paths wind, and minima are hard to reach."""
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(2, 11)), int(rng.integers(1, 9))
    norm, weight = 10 ** rng.uniform(-1, np.log10(8)), 10 ** rng.uniform(-3, 0)
    operators = rng.standard_normal((m, d, d))
    if rng.random() < 0.3:
        operators -= operators.transpose(0, 2, 1)
    operators *= norm / np.linalg.norm(operators, axis=(1, 2), keepdims=True)
    z0, z1 = rng.standard_normal((2, 1, d))
    if rng.random() < 0.5:
        z1 = z0 + 0.5 * rng.standard_normal((1, d))
    return [torch.tensor(array) for array in (operators, z0, z1)], weight


def polish(operators, z0, z1, weight, coefficients):
    """Minimise on from given coefficients with L-BFGS, positive and negative parts apart."""
    m = len(operators)

    def cost(parts):
        c = torch.tensor(parts[:m] - parts[m:])[None]
        value, slope = differentiate_data_term(build_generator(operators, c), z0, z1)
        slope = (operators * slope[0]).sum((1, 2)).numpy()
        return float(value) + weight * parts.sum(), np.concatenate([slope, -slope]) + weight

    best = scipy.optimize.minimize(
        cost,
        np.concatenate([coefficients.clip(0), (-coefficients).clip(0)]),
        jac=True,
        bounds=[(0, None)] * (2 * m),
        method="L-BFGS-B",
        options={"maxiter": 300, "ftol": 1e-10, "gtol": 1e-7},
    )
    return best.fun


@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [3, 41, 95, 179, 194, 199, 271])
def test_nothing_is_called_converged_that_can_be_polished_by_a_percent(seed, dtype):
    (operators, z0, z1), weight = long_path_problem(seed)
    points = [tensor.to(dtype) for tensor in (operators, z0, z1)]
    found = infer_coefficients(*points, sparsity_weight=weight)
    if bool(found.converged[0]):
        lowest = polish(operators, z0, z1, weight, found.coefficients[0].double().numpy())
        assert lowest > 0.99 * float(found.objective[0])
