"""The flow against SciPy: exponential, its action, arc length, Laplace distribution."""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.sparse.linalg
import scipy.stats
import torch

from transop.operators import laplace_kl, sample_laplace, transport


def random_generator(norm, *, dimension=6, seed=0):
    matrix = np.random.default_rng(seed).standard_normal((dimension, dimension))
    return norm * matrix / np.linalg.norm(matrix, 2)


@pytest.mark.parametrize("norm", [1e-6, 0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("symmetry", [0, 1, -1])
def test_transport_is_scipys_exponential_applied_to_the_point(norm, symmetry):
    matrix = random_generator(norm)
    matrix = matrix if symmetry == 0 else (matrix + symmetry * matrix.T) / 2
    point = np.random.default_rng(1).standard_normal(6)
    expected = scipy.linalg.expm(matrix) @ point
    moved = transport(
        torch.from_numpy(matrix)[None], torch.ones(1).double(), torch.from_numpy(point)
    )
    scale = np.linalg.norm(scipy.linalg.expm(matrix), 2) * np.linalg.norm(point)
    np.testing.assert_allclose(moved.numpy() / scale, expected / scale, rtol=0, atol=1e-12)


def test_a_strong_decay_keeps_its_relative_precision():
    decay = -30.0 * torch.eye(3, dtype=torch.float64)[None]
    moved = transport(decay, torch.ones(1).double(), torch.ones(3).double())
    np.testing.assert_allclose(moved.numpy(), np.exp(-30.0), rtol=1e-12)


def test_transport_is_scipys_action_of_the_exponential():
    matrix = random_generator(4.0, dimension=20)
    point = np.random.default_rng(2).standard_normal(20)
    expected = scipy.sparse.linalg.expm_multiply(matrix, point)
    moved = transport(
        torch.from_numpy(matrix)[None], torch.ones(1).double(), torch.from_numpy(point)
    )
    np.testing.assert_allclose(moved.numpy(), expected, rtol=1e-11)


def test_draws_follow_scipys_laplace_distribution():
    drawn = sample_laplace(
        torch.full((20_000,), 0.7).double(), generator=torch.Generator().manual_seed(0)
    )
    test = scipy.stats.kstest(drawn.numpy(), scipy.stats.laplace(scale=0.7).cdf)
    assert test.pvalue > 0.01


@pytest.mark.parametrize(("scale", "prior"), [(0.3, 0.1), (0.05, 0.4), (1.0, 1.3)])
def test_the_divergence_is_its_integral(scale, prior):
    q, p = scipy.stats.laplace(scale=scale), scipy.stats.laplace(scale=prior)

    def integral(one, other):
        def integrand(x):
            return one.pdf(x) * (one.logpdf(x) - other.logpdf(x))

        far = 30 * one.std()
        return 2 * scipy.integrate.quad(integrand, 0, far, limit=400)[0]

    h = torch.tensor(scale, dtype=torch.float64)
    assert float(laplace_kl(h, prior)) == pytest.approx(integral(q, p), rel=1e-6)
