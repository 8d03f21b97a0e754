import pytest
import torch

from transop.evaluation import (
    FIXED,
    factor_for_length,
    far_scale,
    half_way_scale,
    measure_kept_curves,
    spread_covered,
)
from transop.operators import sample_laplace, transport


@pytest.fixture
def plane():
    """Points in a plane; the sign of x is their identity; one operator turns, one scales y."""
    turning = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    stretching = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    operators = torch.stack([turning, stretching])
    points = torch.randn(1500, 2, generator=torch.Generator().manual_seed(0)) + 0.1
    return operators, points


def side(points):
    return torch.stack([points[:, 0], -points[:, 0]], 1)


def test_all_sources_are_measured_at_the_lengths_asked_for(plane):
    operators, points = plane
    stretch_only = torch.tensor([1e-3, 1.0]).expand(len(points), 2)
    curves = measure_kept_curves(
        operators, points, {"stretching": stretch_only}, side, lengths=(0.1, 0.3)
    )
    assert [curve.source for curve in curves] == ["stretching", FIXED]
    for curve in curves:
        assert curve.length == pytest.approx([0.1, 0.3], rel=0.05)


def test_scales_that_spare_identity_beat_a_fixed_scale_of_the_same_length(plane):
    operators, points = plane
    spare = torch.tensor([1e-3, 1.0]).expand(len(points), 2)  # stretching y never changes sides
    ours, fixed = measure_kept_curves(operators, points, {"spare": spare}, side, lengths=(0.3,))
    assert ours.kept[0] > 0.99
    assert fixed.kept[0] < 0.97
    assert fixed.half_width[0] == pytest.approx(
        1.96 * (fixed.kept[0] * (1 - fixed.kept[0]) / 1500) ** 0.5
    )
    assert ours.coverage[0] <= 0.51  # it moves along one direction only


def test_a_single_point_has_no_spread_that_moves_could_cover():
    assert float(spread_covered(torch.ones(1, 3), torch.zeros(1, 3))) == 0


def test_given_names_are_what_must_be_kept(plane):
    operators, points = plane
    wrong = 1 - side(points).argmax(1)
    (fixed,) = measure_kept_curves(operators, points, {}, side, lengths=(0.05,), names=wrong)
    assert fixed.kept[0] < 0.1


def test_the_factor_makes_moves_as_long_as_asked(plane):
    operators, points = plane
    scales = torch.rand(len(points), 2) + 0.1
    factor = factor_for_length(operators, points, scales, 0.25)
    generator = torch.Generator().manual_seed(3)
    moved = transport(operators, sample_laplace(scales * factor, generator=generator), points)
    length = ((moved - points).norm(dim=1) / points.norm(dim=1)).mean()
    assert float(length) == pytest.approx(0.25, rel=0.1)


def test_coverage_is_one_for_moves_as_wide_as_the_data_and_counts_directions():
    points = torch.randn(4000, 4, generator=torch.Generator().manual_seed(0))
    points = points * torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert float(spread_covered(points, points.roll(1, 0))) == pytest.approx(1.0)
    along_one = points.clone()
    along_one[:, 3] += 8
    assert float(spread_covered(points, along_one)) == pytest.approx(0.25, abs=0.05)
    assert float(spread_covered(points, points)) == 0


def test_half_way_moves_stay_nearer_to_their_image_than_to_any_other(plane):
    operators, points = plane
    scale = half_way_scale(operators, points)
    coefficients = sample_laplace(torch.full((1500, 2), scale), generator=torch.Generator())
    moved = transport(operators, coefficients, points)
    own = (moved - points).norm(dim=1)
    nearest = torch.cdist(points, points).fill_diagonal_(torch.inf).amin(1)
    assert float((own / points.norm(dim=1)).mean()) == pytest.approx(
        float((nearest / points.norm(dim=1)).mean()) / 2, rel=0.15
    )
    assert scale < far_scale(operators, points)
