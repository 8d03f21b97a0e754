"""Measures of shapes whose measures are known."""

import numpy as np
import pytest

from transop_paper.figures.shape_measures import MEASURES, measure_shapes, skeleton_length, thin

Y, X = np.mgrid[:40, :40] - 19.5


def soft(distance):
    """A shape from the distance to its border, negative inside; its rim is one pixel wide."""
    return (0.5 - distance).clip(0, 1)


def bar(length, width, *, shear=0.0):
    """An upright bar; ``shear`` shifts its top to the right, per height."""
    across = np.abs(X + shear * Y) - width / 2
    return soft(np.maximum(across, np.abs(Y) - length / 2))


def ring(radius, width):
    return soft(np.abs(np.hypot(X, Y) - radius) - width / 2)


def measured(image):
    return dict(zip(MEASURES, measure_shapes(image), strict=True))


def test_a_bar_is_as_thick_and_as_high_as_it_was_drawn():
    found = measured(bar(24, 4))
    assert found["area"] == pytest.approx(24 * 4, rel=0.05)
    assert found["thickness"] == pytest.approx(4, rel=0.1)
    assert found["height"] == pytest.approx(0.98 * 24, rel=0.05)
    assert found["width"] == pytest.approx(4, abs=0.8)  # its soft rims count
    assert found["slant"] == pytest.approx(0, abs=0.1)


def test_a_skeleton_ends_half_a_width_before_the_stroke():
    assert measured(bar(24, 4))["length"] == pytest.approx(24 - 4, abs=1.5)


@pytest.mark.parametrize("width", [2, 4, 6])
def test_a_ring_is_as_thick_as_its_line_and_as_long_as_its_circle(width):
    found = measured(ring(12, width))
    assert found["thickness"] == pytest.approx(width, rel=0.12)
    assert found["length"] == pytest.approx(2 * np.pi * 12, rel=0.09)
    assert found["area"] == pytest.approx(2 * np.pi * 12 * width, rel=0.12)
    assert found["width"] == pytest.approx(found["height"], rel=0.01)


@pytest.mark.parametrize("shear", [-0.5, 0.2, 0.5])
def test_slant_is_the_angle_by_which_the_top_leans_to_the_right(shear):
    found, upright = measured(bar(24, 4, shear=shear)), measured(bar(24, 4))
    assert found["slant"] == pytest.approx(np.degrees(np.arctan(shear)), abs=1.0)
    assert found["width"] == pytest.approx(upright["width"], abs=0.8)
    assert found["height"] == pytest.approx(upright["height"], abs=0.6)


def test_thicker_strokes_of_the_same_path_differ_in_thickness_and_area_alone():
    thin_one, thick = measured(ring(10, 2)), measured(ring(10, 5))
    assert thick["thickness"] > 2 * thin_one["thickness"]
    assert thick["length"] == pytest.approx(thin_one["length"], rel=0.05)


def test_brightness_does_not_matter_but_an_empty_image_has_no_shape():
    bright, dim = measure_shapes(np.stack([bar(20, 4), 0.5 * bar(20, 4)]))
    np.testing.assert_allclose(bright, dim, rtol=1e-6, atol=1e-9)
    assert np.isnan(measure_shapes(np.zeros((2, 3, 20, 20)))).all()
    assert measure_shapes(np.zeros((2, 3, 20, 20))).shape == (2, 3, len(MEASURES))


def test_thinning_leaves_a_line_of_one_pixel_in_the_middle():
    shape = np.zeros((15, 30), bool)
    shape[4:11, 3:27] = True
    line = thin(shape)
    columns = line[:, 8:22]
    assert (columns.sum(0) == 1).all()
    assert set(np.nonzero(columns)[0]) <= {6, 7, 8}
    assert not (line & ~shape).any()


def test_a_slanted_line_is_thinned_to_one_pixel_in_every_direction():
    y, x = np.mgrid[:60, :60]
    for slope in (1, -1, 0.5, -2):
        line = thin(np.abs(y - 30 - slope * (x - 30)) < 4 * np.hypot(1, slope))
        blocks = line[:-1, :-1].astype(int) + line[:-1, 1:] + line[1:, :-1] + line[1:, 1:]
        assert blocks[15:-15, 15:-15].max() == 2
        inner = line[20:-20, 20:-20]
        expected = 20 * np.hypot(1, slope) / max(1, abs(slope))
        assert skeleton_length(inner) == pytest.approx(expected, rel=0.15)


def test_the_length_of_a_skeleton_counts_steps_and_diagonals_once():
    skeleton = np.zeros((8, 8), bool)
    skeleton[0, :4] = True  # three steps
    assert skeleton_length(skeleton) == 3
    assert skeleton_length(np.eye(5, dtype=bool)) == pytest.approx(4 * np.sqrt(2))
    skeleton[1:3, 3] = True  # a corner: two steps more, no diagonal
    assert skeleton_length(skeleton) == 5
