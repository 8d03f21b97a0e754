"""Derivatives of transport: autograd against finite differences, analytic against autograd."""

import pytest
import torch

from transop.inference import objective
from transop.inference.problem import Problem
from transop.operators import (
    data_gradient,
    laplace_kl,
    sample_laplace,
    transport,
    transport_jacobian,
    transport_path,
)
from transop_paper.contenders.conjugate_gradient import eigenbasis_slope


def flow(batch=3, *, norm=1.0, seed=0, dimension=4, n_operators=2):
    generator = torch.Generator().manual_seed(seed)
    shapes = (n_operators, dimension, dimension), (batch, n_operators), (batch, dimension)
    psi, c, z = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    psi *= norm / torch.linalg.vector_norm(psi, dim=(1, 2), keepdim=True)
    return [tensor.requires_grad_() for tensor in (psi, c, z)]


@pytest.mark.parametrize("method", ["action", "dense"])
@pytest.mark.parametrize("norm", [1e-3, 1.0, 6.0])
def test_transport_is_differentiable_in_all_three_arguments(method, norm):
    assert torch.autograd.gradcheck(
        lambda psi, c, z: transport(psi, c, z, method=method),
        flow(2, norm=norm, dimension=3),
        atol=1e-5,
    )


def test_transport_is_differentiable_twice():
    assert torch.autograd.gradgradcheck(transport, flow(2), atol=1e-5)


def test_gradients_at_zero_coefficients_are_those_of_the_operators_alone():
    psi, c, z = flow()
    zero = torch.zeros_like(c).requires_grad_()
    (slope,) = torch.autograd.grad(transport(psi, zero, z).sum(), zero)
    torch.testing.assert_close(slope, torch.einsum("mij,bj->bm", psi, z))


def test_paths_are_differentiable_in_time_too():
    times = torch.tensor([0.3, -0.5, 1.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(transport_path, (*flow(2), times), atol=1e-5)


def test_the_objective_is_differentiable():
    psi, c, z0 = flow()
    z1 = torch.ones_like(z0).requires_grad_()
    assert torch.autograd.gradcheck(lambda *a: objective(*a, 0.1), (psi, c, z0, z1), atol=1e-5)


@pytest.mark.parametrize("norm", [1e-6, 0.5, 5.0, 20.0])
def test_the_analytic_operator_gradient_is_that_of_autograd(norm):
    psi, c, z0 = flow(7, norm=norm, dimension=5, n_operators=3)
    z1 = torch.randn(7, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    losses = (z1 - transport(psi, c, z0, method="dense")).square().sum(-1) / 2
    (expected,) = torch.autograd.grad(losses.mean(), psi)
    found, gradient = data_gradient(psi, c, z0, z1)
    torch.testing.assert_close(found, losses.detach(), rtol=1e-9, atol=1e-12)
    scale = expected.abs().max()
    torch.testing.assert_close(gradient / scale, expected / scale, rtol=0, atol=1e-10)
    assert not gradient.requires_grad


def test_the_analytic_operator_gradient_does_not_depend_on_the_chunks(monkeypatch):
    psi, c, z0 = flow(9)
    z1 = torch.ones_like(z0)
    whole = data_gradient(psi, c, z0, z1)
    monkeypatch.setattr("transop.operators.derivatives._CHUNK_ENTRIES", 32)
    for one, other in zip(data_gradient(psi, c, z0, z1), whole, strict=True):
        torch.testing.assert_close(one, other)


def test_the_operator_gradient_of_an_empty_batch_is_zero():
    psi, c, z0 = flow()
    losses, gradient = data_gradient(psi, c[:0], z0[:0], z0[:0])
    assert losses.shape == (0,)
    assert not gradient.any()


@pytest.mark.parametrize("norm", [1e-6, 1.0, 10.0])
def test_the_jacobian_is_that_of_autograd(norm):
    psi, c, z0 = (tensor.detach() for tensor in flow(4, norm=norm))
    moved, jacobian = transport_jacobian(psi, c, z0)
    torch.testing.assert_close(moved, transport(psi, c, z0, method="dense"))
    for pair in range(4):
        expected = torch.autograd.functional.jacobian(
            lambda row, z=z0[pair]: transport(psi, row, z, method="dense"), c[pair]
        )
        torch.testing.assert_close(jacobian[pair].mT, expected)


def test_the_gradient_in_the_eigenbasis_is_that_of_autograd_even_without_one():
    psi, c, z0 = (tensor.detach() for tensor in flow(6, dimension=3))
    psi[0] = torch.diag(torch.ones(2, dtype=torch.float64), 1)
    c[0], c[1] = torch.tensor([1.0, 0.0]), torch.zeros(2)  # a Jordan block, and nothing at all
    z1 = torch.ones_like(z0)
    row = c.clone().requires_grad_()
    missed = z1 - transport(psi, row, z0, method="dense")
    (expected,) = torch.autograd.grad(missed.square().sum() / 2, row)
    found = eigenbasis_slope(Problem(psi, z0, z1, torch.zeros_like(c)), c)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_laplace_draws_and_divergences_are_differentiable_in_the_scale():
    scale = torch.tensor([0.2, 1.5], dtype=torch.float64, requires_grad=True)

    def draw(h):
        return sample_laplace(h, generator=torch.Generator().manual_seed(0))

    assert torch.autograd.gradcheck(draw, (scale,))
    assert torch.autograd.gradcheck(lambda h: laplace_kl(h, 0.4), (scale,))
