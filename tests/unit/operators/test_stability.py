"""Eigenvalues, closing paths, and paths that run away."""

import math

import pytest
import torch

from transop.errors import UserError
from transop.operators import (
    closing_period,
    eigenvalues,
    largest_real_part,
    transport,
    will_overflow,
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


@pytest.mark.parametrize(
    ("operator", "period"),
    [
        (turning(2.0, 2.0), math.pi),
        (turning(2.0, 3.0), 2 * math.pi),
        (turning(2.0, 0.0), math.pi),
        (turning(1.0, math.sqrt(2)), math.inf),
        (turning(1.0, 2.0) + 0.1 * torch.eye(4).double(), math.inf),
        (torch.zeros(4, 4).double(), 0.0),
        (torch.diag(torch.ones(3).double(), 1), math.inf),
    ],
)
def test_paths_close_where_all_rotations_come_round_together(operator, period):
    found = closing_period(operator[None], tolerance=0.01, max_turns=6)
    torch.testing.assert_close(found, torch.tensor([period]).double())


def test_a_closing_path_really_returns():
    operator = turning(2.0, 3.0)[None]
    points = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).double()
    returned = transport(operator, closing_period(operator), points)
    torch.testing.assert_close(returned, points)


def test_nonsensical_tolerances_are_refused():
    with pytest.raises(UserError, match="max_turns = 0 must be a whole number from 1"):
        closing_period(torch.zeros(1, 2, 2), max_turns=0)


def test_a_path_that_will_overflow_is_recognised_before_it_does():
    operators = torch.stack([turning(1.0, 1.0), torch.eye(4).double()]).float()
    points = torch.ones(3, 4)
    coefficients = torch.tensor([[500.0, 0.0], [1.0, 80.0], [1.0, 95.0]])
    predicted = will_overflow(operators, coefficients, points)
    assert predicted.tolist() == [False, False, True]
    happened = ~torch.isfinite(transport(operators, coefficients, points)).all(-1)
    assert happened.tolist() == [False, False, True]


def test_decay_overflows_when_walked_backwards_and_a_nearer_limit_can_be_set():
    operators = -torch.eye(3)[None]
    coefficients, points = torch.ones(1, 1), torch.ones(1, 3)
    assert not will_overflow(operators, coefficients, points, until=200.0)
    assert will_overflow(operators, coefficients, points, until=-200.0)
    assert will_overflow(operators, coefficients, points, until=-3.0, limit=10.0)
    assert not will_overflow(operators, coefficients, points, until=-1.0, limit=10.0)


def test_a_point_without_a_growing_part_does_not_overflow():
    operators = torch.diag(torch.tensor([100.0, -1.0]))[None]
    points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    predicted = will_overflow(operators, torch.ones(3, 1), points)
    assert predicted.tolist() == [False, True, False]


def test_the_prediction_agrees_with_what_happens_on_random_flows():
    generator = torch.Generator().manual_seed(5)
    operators = torch.randn(3, 6, 6, generator=generator) / 2
    coefficients = torch.randn(60, 3, generator=generator) * 60
    points = torch.randn(60, 6, generator=generator)
    moved = transport(operators.double(), coefficients.double(), points.double())
    happened = moved.norm(dim=-1) > torch.finfo(torch.float32).max
    predicted = will_overflow(operators, coefficients, points)
    # The largest part estimates the sum of all to a small factor, hence a margin of one pair.
    assert int((predicted != happened).sum()) <= 1
    assert 5 < int(happened.sum()) < 55
