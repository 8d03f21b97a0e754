"""Eigenvalues of operators."""

import torch

from transop.operators import (
    eigenvalues,
    largest_real_part,
)


def turning(*speeds):
    """A block-diagonal generator that turns each plane at its own speed, in a skewed basis."""
    d = 2 * len(speeds)
    operator = torch.zeros(d, d, dtype=torch.float64)
    for i, speed in enumerate(speeds):
        operator[2 * i, 2 * i + 1], operator[2 * i + 1, 2 * i] = -speed, speed
    basis = torch.eye(d, dtype=torch.float64)
    basis[0, -1] = 0.5
    return basis @ operator @ torch.linalg.inv(basis)


def test_a_rotation_is_marginally_stable_and_a_stretch_is_not():
    stretch = torch.diag(torch.tensor([0.3, -0.7, 0.1, 0.0])).double()
    operators = torch.stack([turning(1.0, 3.0), stretch])
    torch.testing.assert_close(
        largest_real_part(operators), torch.tensor([0.0, 0.7]).double(), rtol=0, atol=1e-12
    )
    imaginary = eigenvalues(operators)[0].imag.sort().values
    torch.testing.assert_close(imaginary, torch.tensor([-3.0, -1.0, 1.0, 3.0]).double())
