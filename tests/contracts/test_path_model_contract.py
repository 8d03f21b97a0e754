"""What every model that is compared must do alike: ours and all baselines."""

import pytest
import torch

from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop_paper.baselines import BASELINES

ARCHITECTURE = {"image_size": 16, "channels": 1, "latent_dimension": 4, "width": 4}
NUMBERS = {
    "ae": {},
    "cae": {"penalty_weight": 1.0, "estimator": "stochastic"},
    "beta-vae": {"beta": 2.0, "warm_up_steps": 0},
    "dense": {
        "n_operators": 3,
        "hidden": 8,
        "latent_scale": 1.0,
        "coefficient_penalty": 0.1,
        "operator_decay": 1e-4,
        "reconstruction_weight": 0.75,
    },
}


def build(name):
    torch.manual_seed(0)
    if name != "ours":
        return BASELINES[name].build(dict(NUMBERS[name]), name="conv", **ARCHITECTURE)
    network = build_autoencoder("conv", **ARCHITECTURE)
    return ManifoldAutoencoder(network, TransportOperators(3, 4), sparsity_weight=1e-3)


@pytest.fixture(params=["ours", *BASELINES])
def model(request):
    return build(request.param)


@pytest.fixture
def images():
    return torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(1))


TIMES = torch.tensor([0.0, 0.5, 1.0, 2.0])


def test_images_become_latents_and_latents_images(model, images):
    latents = model.encode(images)
    decoded = model.decode(latents)
    assert latents.shape == (5, 4)
    assert decoded.shape == images.shape
    assert decoded.min() >= 0
    assert decoded.max() <= 1


def test_encoding_is_repeatable_and_keeps_no_graph(model, images):
    model.train()
    first, second = model.encode(images), model.encode(images)
    assert torch.equal(first, second)
    assert not first.requires_grad


def test_a_path_starts_at_its_start(model, images):
    z0, z1 = model.encode(images[:3]), model.encode(images[2:])
    path = model.latent_path(z0, z1, TIMES)
    assert path.shape == (3, 4, 4)
    torch.testing.assert_close(path[:, 0], z0)


@pytest.mark.parametrize("name", ["ours", "ae", "cae", "beta-vae"])
def test_even_an_untrained_path_comes_closer_to_its_end(name, images):
    model = build(name)
    z0, z1 = model.encode(images[:3]), model.encode(images[2:])
    end = model.latent_path(z0, z1, torch.ones(1))[:, 0]
    assert ((end - z1).norm(dim=1) <= (z0 - z1).norm(dim=1) + 1e-6).all()


def test_pairs_do_not_influence_each_other(model, images):
    z0, z1 = model.encode(images[:3]), model.encode(images[2:])
    together = model.latent_path(z0, z1, TIMES)
    alone = torch.cat([model.latent_path(z0[i : i + 1], z1[i : i + 1], TIMES) for i in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_a_saved_model_is_the_same_model(model, images, tmp_path):
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert again.config() == model.config()
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    torch.testing.assert_close(again.encode(images), model.encode(images))
