"""Plant a flow, make pairs with it, and find it again."""

import pytest
import torch

import transop
from transop.inference import infer_coefficients
from transop.operators import transport
from transop_paper.contenders import ALL_SOLVERS


def planted(n_pairs=40, *, dimension=10, n_operators=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    operators = torch.randn(n_operators, dimension, dimension, generator=generator).double()
    operators /= torch.linalg.vector_norm(operators, dim=(1, 2), keepdim=True)
    coefficients = 0.5 * torch.randn(n_pairs, n_operators, generator=generator).double()
    used = torch.rand(n_pairs, n_operators, generator=generator) < 0.5
    z0 = torch.randn(n_pairs, dimension, generator=generator).double()
    return operators, coefficients * used, z0


@pytest.mark.parametrize("backend", ["torch", "compiled"])
def test_planted_coefficients_are_recovered_from_exact_pairs(backend):
    operators, coefficients, z0 = planted()
    z1 = transport(operators, coefficients, z0)
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=1e-7, tolerance=1e-10, backend=backend
    )
    torch.testing.assert_close(found.coefficients, coefficients, rtol=0, atol=2e-4)
    assert float(found.residual.max()) < 1e-5


@pytest.mark.parametrize("solver", sorted(ALL_SOLVERS))
def test_every_solver_explains_most_of_the_move(solver):
    operators, coefficients, z0 = planted(10)
    z1 = transport(operators, coefficients, z0)
    found = infer_coefficients(operators, z0, z1, sparsity_weight=1e-3, solver=ALL_SOLVERS[solver])
    still = (z1 - z0).square().sum(-1) / 2
    assert float(found.objective.sum()) < 0.6 * float(still.sum())


def test_sparsity_removes_operators_that_were_not_used():
    operators, coefficients, z0 = planted()
    z1 = transport(operators, coefficients, z0)
    found = infer_coefficients(operators, z0, z1, sparsity_weight=1e-4)
    unused = coefficients == 0
    assert float((found.coefficients[unused] == 0).double().mean()) > 0.9


def likeness(one, other):
    return abs(float((one * other).sum() / (one.norm() * other.norm())))


def rotation(dimension, i, j):
    plane = torch.zeros(dimension, dimension)
    plane[i, j], plane[j, i] = -1.0, 1.0
    return plane / 2**0.5


@pytest.mark.parametrize("unit", [1.0, 30.0, 1e-3])
def test_a_planted_rotation_is_learned_back_whatever_the_unit_of_the_vectors(unit):
    generator = torch.Generator().manual_seed(2)
    turn = rotation(3, 0, 1)
    z0 = unit * torch.randn(1000, 3, generator=generator)
    z1 = transport(turn[None], torch.rand(1000, 1, generator=generator) - 0.5, z0)
    learned = transop.learn_operators(
        z0, z1, 1, sparsity_weight=1e-3, batch_size=64, learning_rate=0.06, n_steps=120
    )
    assert likeness(learned.operators[0], turn) > 0.995
    assert learned.paths.covered > 0.9
    found = infer_coefficients(learned.operators, z0, z1, sparsity_weight=learned.sparsity_weight)
    assert float(found.residual.mean()) < 0.02


def test_two_planted_rotations_are_told_apart_and_spare_operators_die():
    generator = torch.Generator().manual_seed(0)
    planted = torch.stack([rotation(5, 0, 1), rotation(5, 2, 3)])
    z0 = torch.randn(2000, 5, generator=generator)
    which = torch.randint(2, (2000,), generator=generator)
    angles = torch.zeros(2000, 2)
    angles[torch.arange(2000), which] = 0.5 * torch.randn(2000, generator=generator)
    z1 = transport(planted, angles, z0)
    learned = transop.learn_operators(z0, z1, 5, n_steps=500, learning_rate=0.02)
    by_size = learned.operators.norm(dim=(1, 2)).argsort(descending=True)
    best = [max(likeness(learned.operators[m], turn) for m in by_size[:2]) for turn in planted]
    assert min(best) > 0.98, best
    assert learned.living.sum() == 2
    assert learned.paths.nonzeros < 1.5
