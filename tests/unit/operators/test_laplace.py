"""Drawing Laplace coefficients and measuring their divergence from the prior."""

import pytest
import torch

from transop.errors import UserError
from transop.operators import laplace_kl, sample_laplace, sample_moves, transport


def test_the_mean_absolute_coefficient_is_its_scale():
    scale = torch.tensor([0.1, 2.0]).expand(200_000, 2)
    drawn = sample_laplace(scale, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.abs().mean(0), scale[0], rtol=0.02, atol=0)
    assert float(drawn.mean(0).abs().max()) < 0.02


def test_draws_are_finite_even_at_the_end_of_the_uniform_interval(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.zeros(shape))
    assert bool(torch.isfinite(sample_laplace(torch.ones(3))).all())


def test_draws_are_repeatable_and_proportional_to_their_scale():
    scale = torch.linspace(0.1, 1, 10, requires_grad=True)
    drawn = sample_laplace(scale, generator=torch.Generator().manual_seed(4))
    again = sample_laplace(scale * 3, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(again, 3 * drawn)
    (slope,) = torch.autograd.grad(drawn.sum(), scale)
    torch.testing.assert_close(slope * scale, drawn)


def test_the_divergence_is_zero_exactly_at_the_prior_and_positive_elsewhere():
    scale = torch.tensor([0.05, 0.1, 0.4], dtype=torch.float64)
    divergence = laplace_kl(scale, 0.1)
    assert float(divergence[1].abs()) < 1e-15
    assert bool((divergence[[0, 2]] > 0.1).all())


@pytest.mark.usefixtures("as_users_run_it")
def test_a_mistaken_prior_is_refused():
    with pytest.raises(UserError, match=r"prior_scale = 0\.0 must be a positive"):
        laplace_kl(torch.ones(2), 0.0)


def test_random_moves_are_the_transport_of_drawn_coefficients():
    generator = torch.Generator().manual_seed(1)
    operators = torch.randn(2, 3, 3, generator=generator)
    points = torch.randn(4, 5, 3, generator=generator)
    scales = torch.rand(4, 5, 2, generator=generator)
    moved, drawn = sample_moves(
        operators, points, scales, generator=torch.Generator().manual_seed(4)
    )
    torch.testing.assert_close(
        drawn, sample_laplace(scales, generator=torch.Generator().manual_seed(4))
    )
    torch.testing.assert_close(moved, transport(operators, drawn, points))
    uniform = torch.rand(scales.shape, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(sample_moves(operators, points, scales, uniform=uniform)[0], moved)
    still, _ = sample_moves(operators, points, torch.zeros(4, 5, 2))
    torch.testing.assert_close(still, points)
