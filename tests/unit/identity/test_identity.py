import numpy as np
import pytest
import torch

from transop.augment import Guard, TransportAugment
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.errors import SettingsError, UserError
from transop.identity import Identity, choose_source, describe_identity
from transop.model import ManifoldAutoencoder
from transop.networks import LatentClassifier, build_autoencoder
from transop.operators import TransportOperators


def images(labels=None, n=100, attributes=None):
    pixels = np.zeros((n, 1, 16, 16), np.uint8)
    return ImageDataset(
        pixels,
        None if labels is None else np.asarray(labels),
        {"train": np.arange(n)},
        DatasetMeta("pictures", "drawn", attribute_names=None if attributes is None else ("a",)),
        attributes=attributes,
    )


def small_model():
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
    return ManifoldAutoencoder(
        network, TransportOperators(2, 4), phases=("autoencoder", "operators")
    )


def graph_identity(model):
    numbers = {"latent_dimension": 4, "n_classes": 3}
    recipe = {"network": "latent-mlp", "numbers": numbers}
    facts = {"n_communities": 3, "label_purity": 0.9}
    return Identity("graph", LatentClassifier(**numbers), "latent", recipe, facts=facts)


@pytest.mark.parametrize(
    ("labels", "changes", "source"),
    [
        (np.arange(100) % 3, [], "labels"),
        (None, [], "graph"),
        (np.zeros(100, int), [], "graph"),  # one class tells nothing apart
        (np.arange(100) % 3, ["identity.source=graph"], "graph"),
        (np.arange(100) % 3, ["classifier.weights=own.safetensors"], "classifier"),
        (None, ["classifier.weights=own.safetensors"], "classifier"),
    ],
)
def test_auto_takes_the_best_source_there_is(labels, changes, source):
    assert choose_source(load_settings("demo", changes), images(labels)) == source


def test_attributes_count_as_labels():
    attributes = np.where(np.arange(100)[:, None] % 2, 1, -1).astype(np.int8)
    assert choose_source(load_settings("demo"), images(attributes=attributes)) == "labels"


def test_too_few_images_have_no_identity():
    assert choose_source(load_settings("demo"), images(n=30)) is None


@pytest.mark.parametrize(
    ("source", "n", "message"),
    [
        ("labels", 100, "no labels that differ"),
        ("classifier", 100, "classifier.weights"),
        ("graph", 30, "at least 60 training images"),
    ],
)
def test_a_source_that_cannot_be_had_is_refused(source, n, message):
    with pytest.raises(SettingsError, match=message):
        choose_source(load_settings("demo", [f"identity.source={source}"]), images(n=n))


def test_the_model_remembers_whose_opinion_it_keeps(tmp_path):
    model = small_model()
    graph_identity(model).install(model)
    model.save_pretrained(tmp_path / "run")
    again = Identity.of(ManifoldAutoencoder.from_pretrained(tmp_path / "run"))
    assert (again.source, again.domain) == ("graph", "latent")
    assert again.names == ("group 1", "group 2", "group 3")
    assert again.facts["label_purity"] == 0.9
    assert "3 groups of the neighbour graph" in again.describe()


def test_a_model_without_identity_says_how_it_gets_one():
    with pytest.raises(UserError, match="train the phase 'classifier'"):
        Identity.of(small_model())
    assert describe_identity(None) == "none"


def test_the_guard_keeps_groups_and_refuses_labels_it_does_not_know():
    model = small_model()
    graph_identity(model).install(model)
    augment = TransportAugment(model, guard=Guard(threshold=0.3), source="prior", prior_scale=0.1)
    batch = torch.rand(6, 1, 16, 16)
    assert augment(batch).shape == batch.shape
    assert "groups of the neighbour graph" in augment.guard.describe(model)
    with pytest.raises(UserError, match="leave labels out"):
        augment(batch, labels=torch.zeros(6, dtype=torch.long))
