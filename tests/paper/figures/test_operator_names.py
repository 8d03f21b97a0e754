"""Operators that do a known thing to a drawn shape are called after it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from transop_paper.figures.operator_names import NO_NAME, name_of, slopes_of
from transop_paper.figures.shape_measures import MEASURES

SLANT, THICKNESS = (list(MEASURES).index(name) for name in ("slant", "thickness"))


class Bars:
    """Decodes a point to an upright bar: the first number is its shear, the second its width."""

    def decode(self, points):
        y, x = (torch.from_numpy(axis - 11.5) for axis in np.mgrid[:24, :24])
        shear, width = points[..., 0, None, None], points[..., 1, None, None]
        across = (x + 0.3 * shear * y).abs() - width / 2
        return (0.5 - torch.maximum(across, y.abs() - 8)).clamp(0, 1)[..., None, :, :]


@pytest.fixture
def points():
    width = torch.linspace(3, 5, 6)
    return torch.stack([torch.zeros(6), width, torch.ones(6)], dim=1)


def operator(row, column):
    matrix = torch.zeros(3, 3)
    matrix[row, column] = 1.0
    return matrix


def test_an_operator_that_shears_changes_the_slant_by_as_much(points):
    slopes = slopes_of(SimpleNamespace(model=Bars()), operator(0, 2), points)
    unit = points.norm(dim=1).mean().item()  # of the first number, for a move of natural length
    expected = np.degrees(np.arctan(0.3 * 0.3 * unit)) / 0.3  # by its chord over the reach of 0.3
    assert slopes[:, SLANT].mean() == pytest.approx(expected, rel=0.05)
    assert np.abs(slopes[:, THICKNESS]).max() < 1.0


def test_an_operator_that_widens_changes_the_thickness_and_not_the_slant(points):
    slopes = slopes_of(SimpleNamespace(model=Bars()), operator(1, 1), points)
    assert (slopes[:, THICKNESS] > 2.0).all()
    assert np.abs(slopes[:, SLANT]).max() < 0.1


def test_only_a_change_beyond_the_limit_gives_a_name():
    effect = np.zeros(len(MEASURES))
    effect[SLANT] = -0.8
    assert name_of(effect, 0.5) == "slant"
    assert name_of(effect, 0.9) == NO_NAME
