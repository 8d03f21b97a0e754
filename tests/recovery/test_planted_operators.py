"""Plant a flow, make pairs with it, and find it again."""

import pytest
import torch

from transop.inference import infer_coefficients
from transop.operators import TransportOperators, data_gradient, transport
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


@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_a_planted_rotation_is_learned_back_from_pairs_alone():
    generator = torch.Generator().manual_seed(2)
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]) / 2**0.5
    dictionary = TransportOperators(1, 3, generator=generator)
    optimiser = torch.optim.Adam(dictionary.parameters(), lr=0.06)
    for _ in range(120):
        z0 = torch.randn(64, 3, generator=generator)
        angle = torch.rand(64, 1, generator=generator) - 0.5
        z1 = transport(turn[None], angle, z0)
        operators = dictionary.operators.detach()
        found = infer_coefficients(operators, z0, z1, sparsity_weight=1e-3)
        _, gradient = data_gradient(operators, found.coefficients, z0, z1)
        dictionary.set_gradient(gradient)
        optimiser.step()
    learned = dictionary.operators.detach()[0]
    likeness = (learned * turn).sum() / (learned.norm() * turn.norm())
    assert abs(float(likeness)) > 0.995
