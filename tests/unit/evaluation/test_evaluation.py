import numpy as np
import torch

from transop.evaluation import measure_kept_identity, same_class_pairs
from transop_paper.extrapolation import measure_extrapolation, stopping_time


class Line:
    """Images are their own latents; paths stop at a given share of the way."""

    def __init__(self, reach):
        self.reach = reach

    def encode(self, images):
        return images.flatten(1)

    def decode(self, latents):
        return latents.view(-1, 1, 1, 2)

    def latent_path(self, z0, z1, times):
        bend = 0.5 * times * (times - 1)
        step = self.reach * times[None, :, None] * (z1 - z0)[:, None]
        return z0[:, None] + step - bend[None, :, None] * torch.tensor([1.0, 0.0])


def right_of_three(images):
    x = images.flatten(1)[:, 0]
    return torch.stack([3 - x, x - 3], dim=1)


def test_accuracy_falls_where_the_path_leaves_the_class_and_the_control_goes_straight():
    first, second = torch.zeros(4, 1, 1, 2), torch.zeros(4, 1, 1, 2)
    second[..., 0] = 2.0
    result = measure_extrapolation(
        Line(1.0), right_of_three, first, second, torch.zeros(4, dtype=torch.long), times=[1, 2, 3]
    )
    assert result.accuracy() == [1.0, 1.0, 1.0]  # 0 + 2 t - t (t - 1) / 2 reaches 2, 3-, 3
    assert result.control_accuracy() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(result.residual, torch.zeros(4))


def test_residual_is_what_the_path_leaves_out():
    first, second = torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 1, 2)
    result = measure_extrapolation(
        Line(0.9), right_of_three, first, second, torch.zeros(1, dtype=torch.long), times=[1]
    )
    torch.testing.assert_close(result.residual, torch.tensor([0.1]))


def test_the_share_covered_does_not_depend_on_where_the_origin_is():
    far = torch.full((1, 1, 1, 2), 100.0)
    result = measure_extrapolation(
        Line(0.9), right_of_three, far, far + 1, torch.zeros(1, dtype=torch.long), times=[1]
    )
    torch.testing.assert_close(result.share_covered, torch.tensor([0.9]), atol=1e-4, rtol=0)
    assert result.residual[0] < 0.01


class Straight(Line):
    """The same without the bend."""

    def latent_path(self, z0, z1, times):
        return z0[:, None] + self.reach * times[None, :, None] * (z1 - z0)[:, None]


def test_paths_asked_for_a_residual_stop_on_their_way_and_count_from_there():
    first, second = torch.zeros(4, 1, 1, 2), torch.zeros(4, 1, 1, 2)
    second[..., 0] = 2.0
    labels = torch.zeros(4, dtype=torch.long)
    result = measure_extrapolation(
        Straight(1.0), right_of_three, first, second, labels, times=[1, 1.9, 2], residual=0.2
    )
    torch.testing.assert_close(result.residual, torch.full((4,), 0.2), atol=1e-6, rtol=0)
    torch.testing.assert_close(result.share_covered, torch.full((4,), 0.8), atol=1e-6, rtol=0)
    # 1.6 t: the class ends at 3, that is at t = 1.875 and not at 1.5
    assert result.accuracy() == result.control_accuracy() == [1.0, 0.0, 0.0]
    shifted = measure_extrapolation(
        Straight(1.0), right_of_three, first + 1, second + 1, labels, times=[1], covered=0.7
    )
    torch.testing.assert_close(shifted.share_covered, torch.full((4,), 0.7), atol=1e-6, rtol=0)
    bent = measure_extrapolation(
        Line(1.0), right_of_three, first, second, labels, times=[1, 1.8], residual=0.2
    )
    assert bent.control_accuracy() == [1.0, 1.0]  # the control goes to where the path stopped


def test_paths_that_never_come_so_close_go_to_their_end():
    first, second = torch.zeros(2, 1, 1, 2), torch.ones(2, 1, 1, 2)
    assert stopping_time(Straight(0.7), first, second, 0.2) == 1.0
    assert abs(stopping_time(Straight(0.9), first, second, 0.2) - 0.8 / 0.9) < 1e-4  # not 0.89


def test_pairs_share_a_class_and_are_never_an_image_with_itself():
    labels = np.array([0, 0, 1, 1, 1, 2])
    first, second = same_class_pairs(labels, 50, torch.Generator().manual_seed(0))
    assert len(first) == 100  # the class of one image gives no pair
    assert (labels[first] == labels[second]).all()
    assert (first != second).all()


def test_tiny_scales_keep_every_label_and_move_little():
    rotation = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    points = torch.tensor([[1.0, 1.0], [-1.0, 2.0], [2.0, -3.0]])

    def side(z):
        return torch.stack([z[:, 0], -z[:, 0]], dim=1)

    generator = torch.Generator().manual_seed(0)
    still = measure_kept_identity(
        rotation, points, torch.full((3, 1), 1e-6), side, generator=generator
    )
    wild = measure_kept_identity(
        rotation, points.repeat(100, 1), torch.full((300, 1), 10.0), side, generator=generator
    )
    assert still.kept == 1.0
    assert still.relative_move < 1e-4
    assert wild.kept < 0.9
    assert wild.relative_move > 0.5
