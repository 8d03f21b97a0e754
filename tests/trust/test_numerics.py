"""Inference on numbers that break things: finite coefficients, never worse than zero ones.

Every case is tried twice: on the solver itself, and on what users call, where a safety net
replaces a broken result by zero coefficients. With the net alone a broken solver would pass.
"""

import math

import pytest
import torch

from transop.inference import Problem, infer_coefficients
from transop_paper.contenders import ALL_SOLVERS

pytestmark = pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
# The default solver has two back ends, which share a name but no code.
EVERY_SOLVER = [(name, {}) for name in ALL_SOLVERS]
EVERY_SOLVER += [("gauss-newton", {"backend": backend}) for backend in ("compiled", "torch")]
every_solver = pytest.mark.parametrize(("solver", "options"), EVERY_SOLVER)
# Fixed steps may overshoot: these solvers promise finite coefficients, but no descent.
DESCENDS = ("gauss-newton", "conjugate-gradient")


def random_problem(n_pairs=6, m=3, d=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(m, d, d, generator=generator, dtype=dtype)
    z0, z1 = torch.randn(2, n_pairs, d, generator=generator, dtype=dtype)
    return operators, z0, z1


def jordan_block(d=4):
    """An operator without an eigenbasis: eigenvalue 0.3, all else shifted by one."""
    return 0.3 * torch.eye(d) + torch.diag(torch.ones(d - 1), 1)


def check(operators, z0, z1, solver, options, weight=0.01):
    limit = 4 if solver == "conjugate-gradient" else 12  # its line searches take long
    still = (z1 - z0).square().sum(-1) / 2
    check_without_net(operators, z0, z1, solver, options, weight, limit)
    found = infer_coefficients(
        operators,
        z0,
        z1,
        sparsity_weight=weight,
        solver=ALL_SOLVERS[solver],
        max_iterations=limit,
        **options,
    )
    assert bool(torch.isfinite(found.coefficients).all())
    assert bool(torch.isfinite(found.objective).all())
    assert bool((found.objective <= still).all())
    return found


def check_without_net(operators, z0, z1, solver, options, weight, limit):
    """Call the solver itself, from zero coefficients."""
    start = z0.new_zeros(len(z0), len(operators))
    options = {name: value for name, value in options.items() if name != "initial"}
    problem = Problem(operators, z0, z1, torch.full_like(start, weight))
    found = ALL_SOLVERS[solver](problem, start, max_iterations=limit, **options)
    assert bool(torch.isfinite(found.coefficients).all())
    if solver in DESCENDS:
        still = (z1 - z0).square().sum(-1) / 2
        # Rounding of a squared residual: a few units of its last place.
        slack = 64 * torch.finfo(z0.dtype).eps * (still + z1.square().sum(-1))
        assert bool((found.objective <= still + slack).all())


@every_solver
@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e-6, 1e3, 1e12, 1e30])
def test_operators_of_any_size_do_no_harm(solver, options, size):
    operators, z0, z1 = random_problem()
    check(operators * size, z0, z1, solver, options)


@every_solver
def test_zero_operators_get_zero_coefficients_or_harmless_ones(solver, options):
    operators, z0, z1 = random_problem()
    found = check(torch.zeros_like(operators), z0, z1, solver, options)
    torch.testing.assert_close(found.residual, (z1 - z0).norm(dim=-1) / z1.norm(dim=-1))


@every_solver
def test_defective_and_nilpotent_operators_do_no_harm(solver, options):
    _, z0, z1 = random_problem()
    nilpotent = torch.diag(torch.ones(3), 1)
    check(torch.stack([jordan_block(), nilpotent, jordan_block()]), z0, z1, solver, options)


@every_solver
def test_equal_operators_share_the_work_without_harm(solver, options):
    operators, z0, z1 = random_problem()
    check(operators[:1].expand(3, -1, -1).clone(), z0, z1, solver, options)


@every_solver
def test_identical_points_need_no_coefficients(solver, options):
    operators, z0, _ = random_problem()
    found = check(operators, z0, z0.clone(), solver, options)
    assert not found.coefficients.any()
    assert not found.objective.any()


@every_solver
def test_duplicate_pairs_get_equal_answers(solver, options):
    operators, z0, z1 = random_problem()
    start = torch.zeros(12, 3)
    doubled = [torch.cat([points, points]) for points in (z0, z1)]
    found = check(operators, *doubled, solver, {**options, "initial": start})
    torch.testing.assert_close(found.coefficients[:6], found.coefficients[6:], atol=1e-5, rtol=0)


@every_solver
@pytest.mark.parametrize("which", ["start", "end", "both"])
def test_latents_at_zero_do_no_harm(solver, options, which):
    operators, z0, z1 = random_problem()
    z0 = z0 if which == "end" else torch.zeros_like(z0)
    z1 = z1 if which == "start" else torch.zeros_like(z1)
    check(operators, z0, z1, solver, options)


@every_solver
@pytest.mark.parametrize("size", [1e-18, 1e-6, 1e6, 1e15])
def test_latents_of_any_size_do_no_harm(solver, options, size):
    operators, z0, z1 = random_problem()
    check(operators, z0 * size, z1 * size, solver, options)


@every_solver
@pytest.mark.parametrize("weight", [0.0, 1e-30, 1e30])
def test_sparsity_weights_of_any_size_do_no_harm(solver, options, weight):
    check(*random_problem(), solver, options, weight=weight)


def test_the_safety_net_catches_what_a_broken_solver_drops():
    operators, z0, z1 = random_problem()

    def broken(problem, initial):
        found = ALL_SOLVERS["gauss-newton"](problem, initial)
        return type(found)(
            torch.full_like(found.coefficients, math.nan),
            found.objective,
            found.residual,
            found.converged,
            found.iterations,
        )

    found = infer_coefficients(operators, z0, z1, sparsity_weight=0.01, solver=broken)
    assert not found.coefficients.any()
    assert not found.converged.any()
    torch.testing.assert_close(found.objective, (z1 - z0).square().sum(-1) / 2)
