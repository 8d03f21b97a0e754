import numpy as np
import pytest
import torch

from transop.errors import UserError
from transop_paper.scarce.batches import distort_elastically, draw_noise, rand_augment


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def ramp():
    """Images whose value says where a pixel came from: x / 28 to the right."""
    return (torch.arange(28) / 28).expand(400, 1, 28, 28)


def test_no_strength_is_no_distortion(ramp):
    same = distort_elastically(ramp, alpha=0.0, sigma=4.0, generator=generator())
    torch.testing.assert_close(same, ramp)


def test_alpha_is_measured_in_pixels(ramp):
    moved = distort_elastically(ramp, alpha=34.0, sigma=4.0, generator=generator())
    shift = 28 * (moved - ramp)[:, 0, 12:16, 12:16]  # the middle, where the blur is whole
    # Uniform noise has deviation 1/sqrt(3); a Gaussian blur divides it by 2 sqrt(pi) sigma.
    expected = 34 / 3**0.5 / (2 * torch.pi**0.5 * 4)
    assert float(shift.std()) == pytest.approx(expected, rel=0.1)
    assert float(shift.mean()) == pytest.approx(0, abs=0.1)


def test_noise_is_uniform_and_independent():
    noise = draw_noise(np.random.SFC64(0), (101, 1001))
    assert noise.min() >= -1
    assert noise.max() < 1
    counts = torch.histc(noise, 20, -1, 1)
    expected = noise.numel() / 20
    assert float(((counts - expected) ** 2 / expected).sum()) < 45  # chance 1 in 1000
    neighbours = torch.corrcoef(torch.stack([noise[:, 1:].ravel(), noise[:, :-1].ravel()]))
    assert abs(float(neighbours[0, 1])) < 0.01


def test_images_of_a_large_batch_are_distorted_each_in_its_own_way(ramp):
    moved = distort_elastically(ramp, alpha=34.0, sigma=4.0, generator=generator())
    assert len(moved.flatten(1).unique(dim=0)) == len(ramp)
    again = distort_elastically(ramp, alpha=34.0, sigma=4.0, generator=generator())
    assert torch.equal(moved, again)


def test_elastic_distortion_agrees_with_kornia():
    from kornia.geometry.transform import elastic_transform2d

    images = torch.rand(5, 1, 20, 28, generator=generator(1))
    seed = int(torch.randint(2**62, (), generator=generator()))
    noise = draw_noise(np.random.SFC64(seed), (5, 2, 20, 28))
    scale = (2 * 10 / 28, 2 * 10 / 20)  # kornia measures in half image sides
    expected = elastic_transform2d(images, noise, (13, 13), (2.0, 2.0), scale)
    found = distort_elastically(images, alpha=10.0, sigma=2.0, generator=generator())
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_rand_augment_keeps_shape_and_range_and_leaves_global_randomness_alone():
    images = torch.rand(40, 1, 28, 28, generator=generator(1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    changed = rand_augment(images, n=2, m=6, generator=generator())
    assert torch.equal(torch.rand(3), expected)
    assert changed.shape == images.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert torch.equal(rand_augment(images, n=2, m=6, generator=generator()), changed)
    assert not torch.equal(rand_augment(images, n=2, m=6, generator=generator(1)), changed)


def test_rand_augment_takes_colour_images_and_empty_batches():
    colour = torch.rand(4, 3, 16, 16)
    assert rand_augment(colour, n=1, m=10, generator=generator()).shape == colour.shape
    assert rand_augment(colour[:0], n=1, m=10, generator=generator()).shape == (0, 3, 16, 16)
    empty = distort_elastically(colour[:0], alpha=1.0, sigma=4.0, generator=generator())
    assert empty.shape == (0, 3, 16, 16)


@pytest.mark.parametrize("wrong", [{"n": 0, "m": 6}, {"n": 99, "m": 6}, {"n": 2, "m": 30}])
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(UserError, match="must be"):
        rand_augment(torch.rand(2, 1, 16, 16), generator=generator(), **wrong)
