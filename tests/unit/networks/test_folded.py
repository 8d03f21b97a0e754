"""A folded copy computes what the network computes."""

import copy

import pytest
import torch
from torch import nn

from transop.networks import (
    FoldedAutoencoder,
    ModuleAutoencoder,
    build_autoencoder,
)

# Network, pixels, channels: even and odd sizes, every padding of the last layer.
KINDS = [
    ("mnist", 28, 1),
    ("mnist", 20, 3),
    ("conv", 30, 1),
    ("celeba", 32, 3),
    ("conv32", 32, 3),
    ("conv", 37, 1),
    ("deep", 33, 3),
    ("deep", 64, 3),
]


@pytest.fixture
def build():
    """Build a network whose normalisation has seen data."""

    def make(name, size, channels):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = build_autoencoder(
                name, image_size=size, channels=channels, latent_dimension=5, width=8
            )
            for module in network.modules():
                if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                    module.running_mean.normal_(0, 0.3)
                    module.running_var.uniform_(0.2, 2)
                    nn.init.uniform_(module.weight, 0.5, 1.5)
                    nn.init.normal_(module.bias, 0, 0.3)
        return network.eval()

    return make


def points(n=6, d=5):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_layer_is_the_same_with_and_without_gradients(build, kind):
    network = build(*kind)
    plain = network.decode(points())
    with torch.no_grad():
        fast = network.decode(points())
    assert plain.requires_grad
    assert fast.shape == plain.shape
    torch.testing.assert_close(fast, plain.detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folded_copy_agrees_with_its_original(build, kind):
    network = build(*kind)
    folded = FoldedAutoencoder(network)
    images = torch.rand(300, *network.image_shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        latents = network.encode(images)
        torch.testing.assert_close(folded.encode(images), latents, atol=1e-5, rtol=1e-5)
        decoded = network.decode(latents)
    torch.testing.assert_close(folded.decode(latents), decoded, atol=1e-5, rtol=0)
    assert folded.decode(latents).is_contiguous()


@pytest.mark.parametrize("kind", [("mnist", 28, 1), ("deep", 64, 3)])
def test_in_bfloat16_pixels_differ_by_little(build, kind):
    network = build(*kind)
    folded = FoldedAutoencoder(network, torch.bfloat16)
    with torch.no_grad():
        decoded = network.decode(points(50))
    found = folded.decode(points(50))
    assert found.dtype == torch.float32
    assert 0 < (found - decoded).abs().max() < 0.03
    assert (found - decoded).abs().mean() < 0.003


@pytest.mark.parametrize("name", ["encoder.0.weight", "decoder.0.bias", "encoder.1.running_var"])
def test_a_copy_knows_when_a_weight_has_changed(build, name):
    network = build("mnist", 28, 1)
    folded = FoldedAutoencoder(network)
    assert folded.is_current(network)
    with torch.no_grad():
        network.state_dict()[name].view(-1)[0] += 1e-3
    assert not folded.is_current(network)
    assert not FoldedAutoencoder(network).is_current(copy.deepcopy(network).double())


def test_folding_leaves_the_network_as_it_was(build):
    network = build("deep", 33, 3)
    before = copy.deepcopy(network.state_dict())
    FoldedAutoencoder(network, torch.bfloat16).decode(points())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(not module.inplace for module in network.modules() if isinstance(module, nn.ReLU))


def test_modules_of_the_users_own_are_not_folded(build):
    assert FoldedAutoencoder.is_possible(build("mnist", 28, 1))
    own = ModuleAutoencoder((4,), (4,), nn.Linear(4, 4), nn.Linear(4, 4))
    assert not FoldedAutoencoder.is_possible(own)
    with torch.device("meta"):
        elsewhere = build_autoencoder(
            "conv", image_size=16, channels=1, latent_dimension=3, width=4
        )
    assert not FoldedAutoencoder.is_possible(elsewhere)
