import pytest
import torch

from transop.errors import UserError
from transop.networks import (
    CoefficientEncoder,
    LatentClassifier,
    LeNet,
    build_autoencoder,
    build_classifier,
)


def n_parameters(module):
    return sum(p.numel() for p in module.parameters())


def test_mnist_autoencoder_has_the_tables_layers():
    network = build_autoencoder("mnist", image_size=28, channels=1, latent_dimension=10, width=64)
    encoder = (16 * 64 + 64) + 2 * (64 * 64 * 16 + 64) + 3 * 128 + (64 * 16 * 10 + 10)
    decoder = (10 * 3136 + 3136) + 2 * (64 * 64 * 16 + 64) + 2 * 128 + (64 * 16 + 1)
    assert n_parameters(network.encoder) == encoder
    assert n_parameters(network.decoder) == decoder
    maps = network.encoder[:9](torch.rand(2, 1, 28, 28))
    assert maps.shape == (2, 64, 4, 4)


def test_celeba_autoencoder_has_the_tables_layers():
    network = build_autoencoder("celeba", image_size=64, channels=3, latent_dimension=32, width=32)
    assert network.decoder[0].out_features == 80_000
    encoder_channels = [m.out_channels for m in network.encoder if hasattr(m, "out_channels")]
    decoder_channels = [m.out_channels for m in network.decoder if hasattr(m, "out_channels")]
    assert encoder_channels == [32, 64, 128, 256, 256, 128]
    assert decoder_channels == [256, 256, 256, 128, 128, 3]
    layers = [(3, 32, 4), (32, 64, 4), (64, 128, 3), (128, 256, 3), (256, 256, 4), (256, 128, 4)]
    convolutions = sum(i * o * k * k + o for i, o, k in layers)
    norms = sum(2 * o for _, o, _ in layers)
    assert n_parameters(network.encoder) == convolutions + norms + 128 * 4 * 32 + 32
    with torch.no_grad():
        assert network.eval()(torch.rand(1, 3, 64, 64)).shape == (1, 3, 64, 64)


@pytest.mark.parametrize(
    ("name", "size", "channels"),
    [
        *(("conv", size, 1 + 2 * (size % 2)) for size in (16, 17, 23, 28, 31, 45, 64, 97, 128)),
        *(("deep", size, 1 + 2 * (size % 2)) for size in (16, 17, 23, 32, 45, 64, 97)),
        ("mnist", 16, 1),
        ("mnist", 28, 3),
        ("mnist", 32, 1),
        ("conv32", 32, 3),
        ("conv32", 16, 1),
        ("celeba", 32, 3),
        ("celeba", 50, 1),
    ],
)
def test_every_autoencoder_returns_images_of_the_size_it_was_given(name, size, channels):
    network = build_autoencoder(
        name, image_size=size, channels=channels, latent_dimension=5, width=4
    )
    images = torch.rand(2, channels, size, size)
    assert network.encode(images).shape == (2, 5)
    decoded = network.eval()(images)
    assert decoded.shape == images.shape
    assert decoded.min() >= 0
    assert decoded.max() <= 1


@pytest.mark.parametrize("name", ["mnist", "celeba", "conv32", "conv", "deep"])
def test_every_autoencoder_shows_the_same_after_its_latents_were_shifted(name):
    network = build_autoencoder(name, image_size=32, channels=1, latent_dimension=3, width=4).eval()
    images, offset = torch.rand(4, 1, 32, 32), torch.tensor([1.0, -2.0, 0.5])
    latents, seen = network.encode(images), network(images)
    network.shift_latents(offset)
    torch.testing.assert_close(network.encode(images), latents + offset)
    torch.testing.assert_close(network(images), seen, atol=1e-5, rtol=1e-4)


def test_architecture_builds_the_same_network_again():
    network = build_autoencoder("auto", image_size=32, channels=3, latent_dimension=7, width=8)
    again = build_autoencoder(**network.architecture())
    assert network.architecture()["name"] == "conv32"
    again.load_state_dict(network.state_dict())


@pytest.mark.parametrize(
    ("name", "size"),
    [("mnist", 30), ("mnist", 12), ("celeba", 31), ("conv32", 20), ("conv", 200), ("deep", 8)],
)
def test_impossible_size_is_refused_with_a_remedy(name, size):
    with pytest.raises(UserError, match=f"image_size = {size}.*'{name}'"):
        build_autoencoder(name, image_size=size, channels=1, latent_dimension=2, width=4)


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(UserError, match="'mnist', 'celeba', 'conv32', 'conv', 'deep'"):
        build_autoencoder("resnet", image_size=28, channels=1, latent_dimension=2, width=4)
    with pytest.raises(UserError, match="'lenet', 'latent-mlp'"):
        build_classifier("vgg", n_classes=2)
    with pytest.raises(UserError, match="latent_dimension = 0"):
        build_autoencoder("mnist", image_size=28, channels=1, latent_dimension=0, width=4)


def test_lenet_has_the_classic_number_of_parameters():
    assert n_parameters(LeNet(image_size=28, channels=1, n_classes=10)) == 61_706


@pytest.mark.parametrize(("size", "channels"), [(16, 1), (28, 1), (33, 3), (64, 3)])
def test_lenet_takes_any_square_image_from_sixteen_pixels(size, channels):
    network = LeNet(image_size=size, channels=channels, n_classes=4)
    assert network(torch.rand(3, channels, size, size)).shape == (3, 4)


def test_latent_classifier_is_linear_512_relu_linear():
    network = LatentClassifier(latent_dimension=10, n_classes=10)
    assert n_parameters(network) == 10 * 512 + 512 + 512 * 10 + 10
    assert network(torch.rand(3, 10)).shape == (3, 10)


def test_coefficient_scales_are_positive_and_equal_the_multiplier_for_a_zero_network():
    network = CoefficientEncoder(10, 16, scale_multiplier=0.3)
    points = torch.randn(50, 10) * 20
    assert (network(points) > 0).all()
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(network(points), torch.full((50, 16), 0.3))
