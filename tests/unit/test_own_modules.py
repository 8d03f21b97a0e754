"""Models around encoders and decoders that transop did not write."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

import transop
from transop.augment import Guard, TransportAugment
from transop.errors import ArtifactError, UserError
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder


class Block(nn.Module):
    """An encoder with latents that are no vectors, as those of diffusion models."""

    def __init__(self, side=8):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 2, stride=2)
        self.side = side

    def forward(self, images):
        return self.down(images)


def modules():
    torch.manual_seed(0)
    encoder = Block()
    decoder = nn.Sequential(nn.ConvTranspose2d(4, 1, 2, stride=2), nn.Sigmoid())
    return encoder, decoder


@pytest.fixture
def images():
    return torch.rand(300, 1, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def large(images):
    """Latents of 4 x 8 x 8 = 256 entries, of which operators act on ten directions."""
    return ManifoldAutoencoder.from_modules(*modules(), images=images, n_operators=3, dimension=10)


@pytest.fixture
def flat(images):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(256, 5))
    decoder = nn.Sequential(nn.Linear(5, 256), nn.Unflatten(1, (1, 16, 16)), nn.Sigmoid())
    return ManifoldAutoencoder.from_modules(encoder, decoder, n_operators=3)


def test_two_arguments_are_enough_and_the_first_images_tell_the_shapes(flat, images):
    latents = flat.encode(images)
    assert latents.shape == (300, 5)
    assert flat.image_shape == (1, 16, 16)
    assert torch.linalg.vector_norm(latents, dim=1).mean() == pytest.approx(1, rel=1e-5)
    expected = flat.autoencoder.decoder(flat.autoencoder.encoder(images))
    torch.testing.assert_close(flat.reconstruct(images), expected)
    torch.testing.assert_close(flat(images), expected)
    assert flat.path(images[0], images[1], t=[0, 1, 2]).shape == (3, 1, 16, 16)
    assert TransportAugment(flat)(images).shape == images.shape


def test_the_rest_of_a_large_latent_is_carried_along_unchanged(large, images):
    raw = large.autoencoder.encoder(images).flatten(1)
    z, rest = large.encode(images), large.rest(images)
    assert z.shape == (300, 10)
    coefficients = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(2))
    seen = []
    large.autoencoder.decoder.register_forward_pre_hook(lambda _, x: seen.append(x[0].flatten(1)))
    large.decode(large.transport(coefficients, z), rest=rest)
    moved = torch.cat(seen) - raw
    directions = large.autoencoder.principal.directions
    assert moved.abs().max() > 0.01
    torch.testing.assert_close(moved @ directions.mT @ directions, moved, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        large.reconstruct(images), large.autoencoder.decoder(large.autoencoder.encoder(images))
    )
    path = large.path(images[:2], images[2:4], t=[0.0])
    torch.testing.assert_close(path[:, 0], large.reconstruct(images[:2]))


def test_augmentation_carries_the_rest_along_too(large, images):
    still = TransportAugment(large, multiplier=0.0)(images[:5])
    torch.testing.assert_close(still, large.reconstruct(images[:5]))
    judge = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    guarded = TransportAugment(large, guard=Guard(judge, threshold=0.0), multiplier=0.0)
    torch.testing.assert_close(guarded(images[:5]), large.reconstruct(images[:5]))


def test_the_number_of_directions_is_chosen_and_reported(images, caplog):
    spectrum = torch.zeros(300)
    spectrum[:4] = torch.tensor([8.0, 4.0, 2.0, 1.0])
    features = torch.randn(500, 300, generator=torch.Generator().manual_seed(0)) * spectrum
    with caplog.at_level(logging.INFO):
        model = ManifoldAutoencoder.from_modules(nn.Identity(), images=features, explained=0.9)
    assert model.latent_dimension == 2
    assert model.autoencoder.principal.explained == pytest.approx(80 / 85, abs=0.03)
    assert "2 principal directions of 300" in caplog.text


def test_a_diffusion_latent_and_1280_features_work(images):
    generator = torch.Generator().manual_seed(0)
    for shape in ((4, 32, 32), (1280,)):
        x = torch.randn(200, *shape, generator=generator)
        model = ManifoldAutoencoder.from_modules(nn.Identity(), nn.Identity(), images=x)
        assert model.latent_dimension <= 128
        torch.testing.assert_close(model.reconstruct(x), x, atol=1e-4, rtol=0)
        found = model.infer(x[:3], x[3:6])
        assert found.coefficients.shape == (3, 16)


def test_without_a_decoder_all_works_that_needs_none(images, tmp_path):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(256, 6))
    model = ManifoldAutoencoder.from_modules(encoder, images=images, n_operators=2)
    z = model.encode(images)
    learned = transop.learn_operators(z[:-1], z[1:], 2, n_steps=5, sparsity_weight=0.01)
    model.set_operators(learned.operators, sparsity_weight=0.01)
    assert model.phases == ("operators",)
    assert model.infer(images[:4], images[4:8]).coefficients.shape == (4, 2)
    assert model.latent_path(z[:2], z[2:4], [0.0, 1.0]).shape == (2, 2, 6)
    moved, accepted = TransportAugment(model).move(z)
    assert moved.shape == z.shape
    assert accepted.all()
    assert not torch.equal(moved, z)
    model.coefficient_encoder = CoefficientEncoder(6, 2, hidden=(4,))
    assert model.coefficient_scales(images).shape == (300, 2)
    torch.testing.assert_close(model.decode(z), images)  # each point is nearest to its own image
    frames = model.path(images[0], images[1], t=[0.0])
    torch.testing.assert_close(frames[0], images[0])


def test_functions_and_methods_are_as_good_as_modules(images):
    network = nn.Linear(256, 7)
    model = ManifoldAutoencoder.from_modules(lambda x: network(x.flatten(1)), images=images)
    assert model.encode(images.numpy()).shape == (300, 7)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 7)

        def embed(self, x):
            return self.layer(x.flatten(1))

    model = ManifoldAutoencoder.from_modules(Whole().embed, images=images)
    assert any("layer" in name for name in model.state_dict())


def test_modules_are_frozen_unless_they_may_be_tuned(images):
    for frozen in (True, False):
        model = ManifoldAutoencoder.from_modules(*modules(), images=images, frozen=frozen)
        model.train()
        assert model.autoencoder.encoder.training is not frozen
        assert any(p.requires_grad for p in model.autoencoder.parameters()) is not frozen


def test_a_stored_model_needs_its_modules_again_and_then_gives_the_same(large, images, tmp_path):
    large.save_pretrained(tmp_path)
    with pytest.raises(ArtifactError, match="your own, pass encoder= and decoder="):
        ManifoldAutoencoder.from_pretrained(tmp_path)
    encoder, decoder = Block(), nn.Sequential(nn.ConvTranspose2d(4, 1, 2, stride=2), nn.Sigmoid())
    again = ManifoldAutoencoder.from_pretrained(tmp_path, encoder=encoder, decoder=decoder)
    torch.testing.assert_close(again.encode(images), large.encode(images))
    torch.testing.assert_close(again.reconstruct(images), large.reconstruct(images))
    with pytest.raises(ArtifactError, match="weight"):
        ManifoldAutoencoder.from_pretrained(tmp_path, encoder=nn.Linear(3, 3), decoder=decoder)


def wrong_decoder():
    return nn.ConvTranspose2d(4, 3, 2, stride=2)


class Mask(nn.Module):
    """A module that holds no weights but a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(1, 16, 16))

    def forward(self, images):
        return images * self.mask


IMAGES = torch.rand(300, 1, 16, 16, generator=torch.Generator().manual_seed(1))
BAD = {
    "an encoder that is a word": ({"encoder": "vae"}, "encoder = 'vae' must be"),
    "a decoder that is a number": ({"decoder": 3}, "decoder = 3 must be"),
    "a decoder whose output does not fit": (
        {"decoder": wrong_decoder()},
        r"decoder returned shape \(2, 3, 16, 16\).*\(1, 16, 16\)",
    ),
    "a decoder that takes other latents": (
        {"decoder": nn.Linear(3, 3)},
        r"decoder does not take latents of shape \(4, 8, 8\)",
    ),
    "an encoder that takes other images": (
        {"encoder": nn.Conv2d(3, 4, 2)},
        r"encoder does not take images of shape \(1, 16, 16\)",
    ),
    "an encoder that gives a pair": (
        {"encoder": lambda x: (x, x)},
        r"encoder returned .* lambda x: encoder\(x\)\[0\]",
    ),
    "an encoder that averages the batch away": (
        {"encoder": lambda x: x.mean(0).flatten(1)},
        "for 250 inputs",
    ),
    "an encoder that gives NaN": ({"encoder": lambda x: x / 0 * 0}, "NaN or infinity"),
    "images with NaN": ({"images": torch.full((300, 1, 16, 16), float("nan"))}, "NaN"),
    "one image": ({"images": IMAGES[:1]}, "1 images are too few"),
    "the same image again and again": ({"images": IMAGES[:1].repeat(300, 1, 1, 1)}, "the same"),
    "images that are bytes": ({"images": (IMAGES * 255).byte()}, "uint8"),
    "half a direction": ({"dimension": 1.5}, "dimension = 1.5 must be a whole number"),
    "a share above one": ({"explained": 1.5}, "explained"),
    "a decoder that gives NaN": (
        {"decoder": lambda z: wrong_decoder()(z)[:, :1] * float("nan")},
        "decoder gives NaN or infinity",
    ),
    "modules on another device": ({"encoder": Block().to("meta")}, "modules are on cpu and meta"),
    "no values to bring to a device": (
        {"encoder": Block().to("meta"), "device": "cpu"},
        "'meta' holds no values",
    ),
    "buffers on another device": (
        {"encoder": Mask().to("meta"), "decoder": None},
        "modules are on meta",
    ),
    "images on another device": ({"images": IMAGES.to("meta")}, "device 'meta'"),
    "another device": ({"device": "cuda:7"}, "device"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_what_does_not_fit_together_is_told_in_one_line(change, message):
    encoder, decoder = modules()
    arguments = {"encoder": encoder, "decoder": decoder, "images": IMAGES, **change}
    with pytest.raises(UserError, match=message) as caught:
        ManifoldAutoencoder.from_modules(**arguments)
    assert "\n" not in str(caught.value)


def test_inputs_of_another_size_are_refused_later_too(large, images):
    with pytest.raises(UserError, match=r"takes \(1, 16, 16\)"):
        large.encode(torch.rand(2, 1, 20, 20))
    with pytest.raises(UserError, match=r"takes \(number, 10, 10\)"):
        large.set_operators(np.zeros((2, 3, 3)))
