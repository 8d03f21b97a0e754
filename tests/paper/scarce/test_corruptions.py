"""Changes of test images: each does what its name says, and the same seed gives the same image."""

import numpy as np
import pytest

from transop_paper.scarce import corruptions
from transop_paper.scarce.corruptions import CORRUPTIONS, KINDS, SWEEPS, corrupt

SIZE = 28
Y, X = np.mgrid[:SIZE, :SIZE] - 13.5


@pytest.fixture
def random():
    return np.random.default_rng(0)


@pytest.fixture
def strokes():
    """Five upright strokes of growing height, a little to the left."""
    heights = np.arange(5, 10)[:, None, None]
    inside = np.minimum(2.5 - np.abs(X + 2), heights + 0.5 - np.abs(Y))
    return inside.clip(0, 1).astype(np.float32)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_change_gives_other_images_with_values_from_0_to_1(name, strokes):
    changed = corrupt(strokes, name)
    assert changed.shape == strokes.shape
    assert changed.dtype == np.float32
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert np.abs(changed - strokes).mean() > 0.005
    np.testing.assert_array_equal(changed, corrupt(strokes, name))


def test_there_are_the_fifteen_changes_of_mnist_c_and_three_sweeps():
    assert len(KINDS) == 15
    assert set(SWEEPS) == {"rotate", "scale", "shear"}


def centre(images):
    mass = images.sum((1, 2))
    return np.stack([(images * axis).sum((1, 2)) / mass for axis in (X, Y)], axis=1)


def test_a_full_turn_changes_nothing_and_a_half_turn_flips_both_axes(strokes, random):
    full = corruptions.rotate(strokes, random, degrees=360)
    np.testing.assert_allclose(full, strokes, atol=1e-3)
    half = corruptions.rotate(strokes, random, degrees=180)
    np.testing.assert_allclose(half, strokes[:, ::-1, ::-1], atol=1e-3)


def test_a_quarter_turn_goes_to_both_sides(strokes, random):
    many = np.repeat(strokes[:1], 20, axis=0)
    turned = corruptions.rotate(many, random, degrees=90)
    found = {"left" if centre(one[None])[0, 1] > 0 else "right" for one in turned}
    assert found == {"left", "right"}


def test_shrinking_by_half_leaves_a_quarter_of_the_mass(strokes, random):
    small = corruptions.scale(strokes, random, factor=0.5)
    np.testing.assert_allclose(small.sum((1, 2)), strokes.sum((1, 2)) / 4, rtol=0.05)


def test_a_shear_leans_the_stroke_and_leaves_its_mass(strokes, random):
    leaning = corruptions.shear(strokes, random, amount=0.5)
    slope = (leaning * (X + 2) * Y).sum((1, 2)) / (leaning * Y * Y).sum((1, 2))
    np.testing.assert_allclose(np.abs(slope), 0.5, rtol=0.05)
    np.testing.assert_allclose(leaning.sum((1, 2)), strokes.sum((1, 2)), rtol=0.05)


def test_a_translation_is_as_long_as_asked(strokes, random):
    moved = corruptions.translate(strokes, random, pixels=3)
    lengths = np.linalg.norm(centre(moved) - centre(strokes), axis=1)
    np.testing.assert_allclose(lengths, 3, rtol=0.05)


def test_motion_blurs_along_the_movement(strokes, random):
    blurred = corruptions.motion_blur(strokes, random, pixels=8)
    np.testing.assert_allclose(centre(blurred), centre(strokes), atol=0.1)
    assert (np.ptp(blurred, (1, 2)) < np.ptp(strokes, (1, 2))).all()
    assert (blurred.max(1) > 0.05).sum() > (strokes.max(1) > 0.05).sum()


def test_noise_has_the_strength_that_was_asked_for(random):
    grey = np.full((4, 50, 50), 0.5)
    shots = corruptions.shot_noise(grey, random, photons=8)
    assert shots.mean() == pytest.approx(0.5, rel=0.02)
    assert shots.var() == pytest.approx(0.5 / 8, rel=0.1)
    hit = corruptions.impulse_noise(grey, random, share=0.2) != 0.5
    assert hit.mean() == pytest.approx(0.2, rel=0.1)


def test_glass_exchanges_pixels_but_loses_no_light(strokes, random):
    seen = corruptions.glass_blur(strokes, random, sigma=0.7)
    np.testing.assert_allclose(seen.sum((1, 2)), strokes.sum((1, 2)), rtol=0.02)


def test_a_stripe_inverts_the_outer_quarters_alone(strokes, random):
    striped = corruptions.stripe(strokes, random)
    np.testing.assert_array_equal(striped[:, :, 7:21], strokes[:, :, 7:21])
    np.testing.assert_array_equal(striped[:, :, :7], 1 - strokes[:, :, :7])
    np.testing.assert_array_equal(striped[:, :, 21:], 1 - strokes[:, :, 21:])


def test_fog_lowers_the_contrast_and_is_smooth(strokes, random):
    fogged = corruptions.fog(np.zeros_like(strokes), random, density=1.0)
    assert fogged.max() <= 0.5
    steps, spread = np.abs(np.diff(fogged, axis=2)).mean(), fogged.std()
    assert steps < 0.5 * spread


@pytest.mark.parametrize("name", ["spatter", "dotted line", "zigzag"])
def test_what_is_drawn_over_an_image_never_darkens_it(name, strokes):
    changed = corrupt(strokes, name)
    assert (changed >= strokes - 1e-6).all()
    covered = (changed - strokes > 0.2).mean((1, 2))
    assert ((covered > 0.01) & (covered < 0.4)).all()


def test_a_line_goes_from_side_to_side(strokes):
    zigzag = corrupt(np.zeros_like(strokes), "zigzag")
    assert (zigzag.max(1) > 0.5).all()


def test_edges_are_the_outline_of_a_square(random):
    square = np.zeros((1, SIZE, SIZE))
    square[0, 8:20, 8:20] = 1
    edges = corruptions.canny_edges(square, random)[0]
    assert not edges[11:17, 11:17].any()
    assert not edges[:5].any()
    assert edges[13, :14].any()
    assert edges[13, 14:].any()
    assert 30 < edges.sum() < 80
