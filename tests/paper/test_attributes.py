from pathlib import Path

import pytest
import torch

from transop.errors import UserError
from transop_paper.attributes.network import (
    TRUNKS,
    DynamicLossWeights,
    attribute_losses,
    build_attribute_net,
)
from transop_paper.resnet import ResNet18

NAMES = ("Smiling", "Bald", "Bangs")


@pytest.mark.parametrize("trunk", TRUNKS)
def test_every_attribute_gets_two_logits(trunk: str) -> None:
    net = build_attribute_net(NAMES, trunk=trunk).eval()
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert net(images).shape == (2, 3, 2)


def test_sixteen_heads_have_the_papers_layers() -> None:
    net = build_attribute_net([f"a{i}" for i in range(16)])
    assert len(net.heads) == 16
    kinds = [type(layer).__name__ for layer in net.heads[0]]  # type: ignore[arg-type]
    assert kinds == ["Linear", "BatchNorm1d", "Dropout", "ReLU", "Linear"]
    assert net.heads[0][0].weight.shape == (256, 512)  # type: ignore[index, union-attr]
    assert net.heads[0][4].weight.shape == (2, 256)  # type: ignore[index, union-attr]


def test_imagenet_weights_reach_the_trunk(tmp_path: Path) -> None:
    source = ResNet18()
    torch.save(source.state_dict(), tmp_path / "weights.pth")
    net = build_attribute_net(NAMES, imagenet_weights=tmp_path / "weights.pth")
    assert net.training
    loaded = net.state_dict()
    assert torch.equal(loaded["trunk.network.layer4.1.conv2.weight"], source.layer4[1].conv2.weight)
    with pytest.raises(UserError, match="fit trunk 'resnet18', not 'small'"):
        build_attribute_net(NAMES, trunk="small", imagenet_weights=tmp_path / "weights.pth")


def test_unknown_trunks_and_no_attributes_are_refused() -> None:
    with pytest.raises(UserError, match="choose one of resnet18, small"):
        build_attribute_net(NAMES, trunk="vgg")
    with pytest.raises(UserError, match="attribute_names is empty"):
        build_attribute_net(())


def test_losses_are_the_cross_entropy_of_each_attribute() -> None:
    logits = torch.tensor([[[2.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 3.0]]])
    losses = attribute_losses(logits, torch.tensor([[-1, 1], [1, -1]]))
    by_hand = torch.tensor(
        [
            (torch.log1p(torch.tensor(-2.0).exp()) + torch.log1p(torch.tensor(-1.0).exp())) / 2,
            (torch.tensor(2.0).log() + torch.log1p(torch.tensor(3.0).exp())) / 2,
        ]
    )
    torch.testing.assert_close(losses, by_hand)


@pytest.mark.parametrize(("frequency", "best"), [(None, 0.2), (torch.tensor([0.2]), 0.5)])
def test_with_frequencies_a_network_that_knows_nothing_answers_one_half(frequency, best) -> None:
    # Two of ten images have the attribute; the best constant answer is what the loss prefers.
    attributes = torch.tensor([[1]] * 2 + [[-1]] * 8)
    answers = torch.linspace(0.05, 0.95, 91)
    losses = [
        attribute_losses(
            torch.stack([1 - p, p]).log().expand(10, 1, 2), attributes, frequency
        ).item()
        for p in answers
    ]
    assert answers[int(torch.tensor(losses).argmin())].item() == pytest.approx(best, abs=0.006)


def test_loss_weights_hold_finite_numbers_before_the_first_validation():
    # A loop takes any other for a failed step and rolls the classifier back.
    assert all(
        bool(value.isfinite().all()) for value in DynamicLossWeights(3).state_dict().values()
    )


def test_weights_are_equal_until_two_validations_are_known() -> None:
    weighting = DynamicLossWeights(3)
    weighting.update(torch.tensor([0.9, 0.2, 0.5]))
    assert weighting.weights.tolist() == [1.0, 1.0, 1.0]
    assert weighting(torch.tensor([1.0, 2.0, 6.0])).item() == pytest.approx(3.0)


def test_a_stalling_attribute_gains_weight_and_a_falling_one_loses_it() -> None:
    weighting = DynamicLossWeights(3)
    weighting.update(torch.tensor([0.8, 0.8, 0.8]))
    weighting.update(torch.tensor([0.4, 0.8, 0.9]))
    falling, stalled, rising = weighting.weights.tolist()
    assert falling < 1.0 < stalled < rising
    assert sum(weighting.weights.tolist()) == pytest.approx(3.0)


def test_one_wild_validation_of_a_tiny_loss_does_not_take_over() -> None:
    weighting = DynamicLossWeights(2)
    weighting.update(torch.tensor([1e-9, 0.5]))
    weighting.update(torch.tensor([1e-2, 0.5]))
    assert weighting.weights.isfinite().all()
    assert weighting.weights.max() < 2.0


def test_the_weighting_survives_a_checkpoint() -> None:
    weighting, resumed = DynamicLossWeights(2), DynamicLossWeights(2)
    weighting.update(torch.tensor([0.6, 0.6]))
    weighting.update(torch.tensor([0.3, 0.6]))
    resumed.load_state_dict(weighting.state_dict())
    for each in (weighting, resumed):
        each.update(torch.tensor([0.2, 0.6]))
    assert torch.equal(weighting.weights, resumed.weights)


def test_the_small_trunk_learns_where_a_bright_spot_is() -> None:
    torch.manual_seed(0)  # initial weights
    generator = torch.Generator().manual_seed(0)
    images = 0.3 * torch.rand(32, 3, 32, 32, generator=generator)
    attributes = torch.where(torch.rand(32, 2, generator=generator) < 0.5, -1, 1)
    images[attributes[:, 0] > 0, :, :8, :8] += 0.5
    images[attributes[:, 1] > 0, 0] += 0.4
    net = build_attribute_net(("Spot", "Red"), trunk="small")
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(50):  # batch normalisation needs that long to know the average image
        optimiser.zero_grad()
        attribute_losses(net(images), attributes).mean().backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        said = net(images).argmax(-1) == 1
    assert (said == (attributes > 0)).float().mean() > 0.95
