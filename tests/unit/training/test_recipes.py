import pytest

from transop.config import load_settings, recipe_names
from transop.data import known_datasets
from transop.networks import build_autoencoder

SIZES = {"celeba": (64, 3), "faces": (64, 3)}


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_names_itself_a_data_set_and_a_network_that_fits(name):
    settings = load_settings(name)
    assert settings.recipe == name
    assert settings.data.source in known_datasets()
    size, channels = SIZES.get(settings.data.source, (28, 1))
    network = build_autoencoder(
        settings.autoencoder.network,
        image_size=size,
        channels=channels,
        latent_dimension=settings.autoencoder.latent_dimension,
        width=4,
    )
    assert network.shape.image_size == size


@pytest.mark.parametrize(
    ("name", "weights", "decays"),
    [
        ("mnist", (0.1, 0.1), (2e-6, 2e-6)),
        ("fashion-mnist", (0.5, 0.5), (2e-5, 2e-6)),
        ("celeba", (1.5, 0.8), (1e-5, 5e-7)),
    ],
)
def test_the_papers_weights_are_translated_to_the_units_of_the_objective(name, weights, decays):
    settings = load_settings(name)
    half = settings.autoencoder.latent_dimension / 2
    ours = settings.objective, settings.fine_tuning_objective
    for section, weight, decay in zip(ours, weights, decays, strict=True):
        assert section.sparsity_weight == pytest.approx(weight / 20)
        assert section.operator_decay == pytest.approx(decay * half)
