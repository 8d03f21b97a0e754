"""Inference on numbers that break things: finite coefficients, never worse than standing still."""

import pytest
import torch

from transop.inference import SOLVERS, infer_coefficients

pytestmark = pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
# The default solver has two back ends, which share a name but no code.
EVERY_SOLVER = [(name, {}) for name in SOLVERS] + [("gauss-newton", {"backend": "torch"})]
every_solver = pytest.mark.parametrize(("solver", "options"), EVERY_SOLVER)


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
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=weight, solver=solver, max_iterations=limit, **options
    )
    assert bool(torch.isfinite(found.coefficients).all())
    assert bool(torch.isfinite(found.objective).all())
    still = (z1 - z0).square().sum(-1) / 2
    assert bool((found.objective <= still).all())
    return found


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
