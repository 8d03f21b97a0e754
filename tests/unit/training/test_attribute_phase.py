import numpy as np
import pytest
import torch

from transop.data import DatasetMeta, ImageDataset
from transop.errors import SettingsError
from transop.identity import FEWEST_IMAGES
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop.training.classifier import train_classifier
from transop.training.coefficient_encoder import train_coefficient_encoder
from transop.training.fit import wanted_phases
from transop_paper.attributes.network import attribute_losses
from transop_paper.faces import generate_faces

SMALL = [
    "classifier.epochs=3",
    "classifier.batch_size=20",
    "classifier.learning_rate=3e-3",
    "coefficient_encoder.batch_size=32",
    "coefficient_encoder.epochs=1",
    "coefficient_encoder.hidden=[16]",
    "coefficient_encoder.distil_samples=1000",
]


@pytest.fixture(scope="module")
def spots():
    """A red spot at the left or right, above or below: two attributes, no classes."""
    generator = np.random.default_rng(0)
    sides = generator.integers(0, 2, (160, 2))
    images = generator.integers(0, 60, (160, 3, 16, 16)).astype(np.uint8)
    for image, (right, below) in zip(images, sides, strict=True):
        image[0, 8 * below + 2 : 8 * below + 6, 8 * right + 2 : 8 * right + 6] = 255
    rows = np.arange(160)
    return ImageDataset(
        images,
        None,
        {"train": rows[:120], "validation": rows[120:140], "test": rows[140:]},
        DatasetMeta("spots", "drawn", attribute_names=("Right", "Below")),
        attributes=(2 * sides - 1).astype(np.int8),
    )


def fresh_model(size=16):
    torch.manual_seed(0)
    network = build_autoencoder("conv", image_size=size, channels=3, latent_dimension=4, width=4)
    return ManifoldAutoencoder(network, TransportOperators(3, 4), latent_scale=0.5)


def test_attributes_are_learned_saved_with_the_model_and_loaded_again(
    spots, make_session, tmp_path
):
    model = fresh_model()
    numbers = train_classifier(make_session(*SMALL, "classifier.epochs=6"), model, spots)
    assert numbers["attributes"] == ["Right", "Below"]
    assert numbers["test_accuracy"] > 0.95 > numbers["majority_accuracy"]
    model.save_pretrained(tmp_path / "kept")
    again = ManifoldAutoencoder.from_pretrained(tmp_path / "kept")
    assert again.attribute_names == ("Right", "Below")
    assert not again.names_classes
    images = spots.batch(spots.splits["test"])
    torch.testing.assert_close(again.classify(images), model.classify(images))
    latents = model.encode(images)
    expected = model.classifier(model.decode(latents)).softmax(-1)[..., 1]
    torch.testing.assert_close(again.attributes_at(latents), expected)


@pytest.mark.parametrize("even_odds", [False, True])
def test_the_frequency_of_attributes_is_taken_out_if_asked_for(
    spots, make_session, monkeypatch, even_odds
):
    seen = []

    def losses(logits, attributes, frequency=None):
        seen.append(frequency)
        return attribute_losses(logits, attributes, frequency)

    monkeypatch.setattr("transop_paper.attributes.training.attribute_losses", losses)
    session = make_session(*SMALL, f"classifier.even_odds={str(even_odds).lower()}")
    numbers = train_classifier(session, fresh_model(), spots)
    present = torch.from_numpy(spots.attributes[spots.splits["train"]] > 0)
    expected = present.float().mean(0) if even_odds else None
    for frequency in seen:
        torch.testing.assert_close(frequency, expected)
    assert 0.5 < numbers["balanced_accuracy"] <= 1


def test_the_losses_are_weighted_anew_after_every_epoch(spots, make_session, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "transop_paper.attributes.network.DynamicLossWeights.update",
        lambda self, losses: seen.append(losses),
    )
    train_classifier(make_session(*SMALL), fresh_model(), spots)
    assert len(seen) == 2  # nothing is left to weight after the last of three
    assert all(losses.shape == (2,) for losses in seen)


def test_a_stopped_attribute_phase_ends_with_the_same_bits(spots, make_session, monkeypatch):
    whole, parts = fresh_model(), fresh_model()
    train_classifier(make_session(*SMALL, name="whole"), whole, spots)
    session = make_session(*SMALL, "runtime.checkpoint_seconds=0", name="parts")
    checks = iter([False] * 8 + [True])
    asked = property(lambda self: next(checks, False), lambda self, value: None)
    monkeypatch.setattr(type(session), "stop_requested", asked)
    with pytest.raises(KeyboardInterrupt):
        train_classifier(session, parts, spots)
    train_classifier(make_session(*SMALL, name="parts"), parts, spots)
    for key, value in whole.classifier.state_dict().items():
        assert torch.equal(value, parts.classifier.state_dict()[key]), key


def test_the_coefficient_encoder_takes_attributes_for_identity(spots, make_session):
    model = fresh_model()
    session = make_session(*SMALL)
    train_classifier(session, model, spots)
    numbers = train_coefficient_encoder(session, model, spots)
    assert 0 <= numbers["kept_encoded"] <= 1
    assert 0.5 < numbers["distilled_agreement"] <= 1
    assert model.scales_at(model.encode(spots.batch([0, 1]))).shape == (2, 3)


def test_generated_faces_get_the_papers_sixteen(make_session):
    faces = generate_faces(20, image_size=16)
    model = fresh_model()
    train_classifier(make_session("classifier.epochs=1", "classifier.batch_size=8"), model, faces)
    assert model.attribute_names is not None
    assert len(model.attribute_names) == 16


def test_identity_is_left_out_only_without_labels_attributes_and_a_neighbour_graph(
    spots, make_session
):
    settings = make_session().settings
    assert "classifier" in wanted_phases(settings, spots)
    bare = ImageDataset(spots.images, None, spots.splits, DatasetMeta("bare", "drawn"))
    assert "classifier" in wanted_phases(settings, bare)  # the neighbour graph takes their place
    rows = {"train": spots.splits["train"][: FEWEST_IMAGES - 1]}
    few = ImageDataset(spots.images, None, rows, DatasetMeta("few", "drawn"))
    assert "classifier" not in wanted_phases(settings, few)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (["classifier.attributes=['Left']"], "has no 'Left'; it has Right, Below"),
        (["classifier.network=attributes", "classifier.domain=latent"], "reads colour images"),
        (["classifier.imagenet_weights=w.pth"], "fit trunk 'resnet18', not 'small'"),
    ],
)
def test_impossible_wishes_are_refused(spots, make_session, overrides, complaint):
    with pytest.raises(ValueError, match=complaint):
        train_classifier(make_session(*overrides), fresh_model(), spots)


def test_a_set_without_attributes_cannot_train_their_classifier(bars, make_session):
    with pytest.raises(SettingsError, match="'bars' has no attributes"):
        train_classifier(make_session("classifier.network=attributes"), fresh_model(), bars)


def test_a_share_of_the_images_is_shown_as_reconstructed(spots, make_session, monkeypatch):
    model, seen = fresh_model(), []

    def reconstruct(images):
        seen.append(len(images))
        return torch.zeros_like(images)

    monkeypatch.setattr(model, "reconstruct", reconstruct)
    train_classifier(make_session(*SMALL, "classifier.reconstructed=0.3"), model, spots)
    assert seen == [6] * 18  # of 20 in each of 6 steps, three times over
    assert model.classifier is not None
