import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from transop.data import load_dataset
from transop.errors import ArtifactError, DataError, UserError
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop.semi_supervised import (
    Consistency,
    ExpectedAccuracy,
    FewLabelClassifier,
    learn_from_few_labels,
)

QUICK = Consistency(n_steps=80, n_labelled=8, n_unlabelled=32, learning_rate=3e-3)


def draw_bars(n, seed=0):
    """Bright bars at random places, 16 pixels wide, lying (class 0) or standing (class 1)."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    place = np.arange(16) - generator.integers(3, 13, (n, 1))
    bars = np.broadcast_to(np.exp(-(place**2) / 3)[:, :, None], (n, 16, 16)).copy()
    bars[labels == 1] = bars[labels == 1].transpose(0, 2, 1)
    return (255 * bars).astype(np.uint8), labels


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=6, width=4)
    with torch.no_grad():
        network.encoder[-1].weight.mul_(20)
        network.decoder[-2].weight.mul_(30)
    operators = TransportOperators(3, 6, generator=torch.Generator().manual_seed(0))
    return ManifoldAutoencoder(network, operators, phases=("autoencoder", "operators"))


@pytest.fixture
def folder(tmp_path):
    """Six labelled images of each class, and sixty without label."""
    pictures, labels = draw_bars(72)
    for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        name = ("lying", "standing")[label] if number < 12 else "unlabelled"
        (tmp_path / name).mkdir(exist_ok=True)
        Image.fromarray(picture).save(tmp_path / name / f"{number}.png")
    return tmp_path


def as_images(pictures):
    return torch.from_numpy(pictures).float()[:, None] / 255


def few_known(n, n_known):
    """Draw bars of which only the first ones have a label."""
    pictures, labels = draw_bars(n)
    return pictures[:, None], np.where(np.arange(n) < n_known, labels, -1), labels


def test_a_folder_becomes_labels_and_a_classifier_with_their_expected_accuracies(folder, model):
    found = learn_from_few_labels(folder, model, settings=QUICK, n_folds=3)
    assert found.class_names == ("lying", "standing")
    assert (found.n_labelled, found.n_unlabelled) == (12, 60)
    pictures, labels = draw_bars(40, seed=1)
    guesses = found.predict(as_images(pictures))
    assert np.mean([found.class_names.index(g) for g in guesses] == labels) > 0.8
    for expected in (found.expected_accuracy, found.graph.expected_accuracy):
        assert expected.share > 0.7
        assert 0 < expected.standard_error < 0.2

    _, truth = draw_bars(72)
    graph = found.graph
    numbers = np.array([int(file.split("/")[1].removesuffix(".png")) for file in graph.files])
    assert sorted(numbers) == list(range(72))
    np.testing.assert_array_equal(graph.given, np.where(numbers < 12, truth[numbers], -1))
    np.testing.assert_allclose(graph.probabilities.sum(1), 1)
    assert np.mean(graph.labels == truth[numbers]) > 0.9
    known = graph.given >= 0
    np.testing.assert_array_equal(graph.labels[known], graph.given[known])


def test_the_same_seed_gives_the_same_network_also_if_images_are_changed_at_random(model):
    pictures, known, _ = few_known(40, 8)
    options = {"settings": QUICK, "n_folds": 0, "augment": lambda x: x + torch.rand_like(x) / 9}
    first, again = (learn_from_few_labels(pictures, model, known, **options) for _ in range(2))
    for one, other in zip(first.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)
    assert first.expected_accuracy is first.graph.expected_accuracy is None


def test_images_are_changed_only_by_what_is_passed(model):
    pictures, known, _ = few_known(40, 8)
    shapes = []

    def white(images):
        shapes.append(tuple(images.shape))
        return torch.ones_like(images)

    plain = learn_from_few_labels(pictures, model, known, settings=QUICK, n_folds=0)
    found = learn_from_few_labels(pictures, model, known, settings=QUICK, n_folds=0, augment=white)
    assert set(shapes) == {(8, 1, 16, 16), (32, 1, 16, 16)}
    images = as_images(pictures[:, 0])
    assert not torch.allclose(plain.probabilities(images), found.probabilities(images))
    with pytest.raises(UserError, match="augment gave Tensor of shape"):
        learn_from_few_labels(pictures, model, known, augment=lambda x: x[:, :, 1:])


def test_the_hidden_label_is_never_used_for_its_own_image(model, monkeypatch):
    trained, spread = [], []

    def remember(self, rows, labels, opinion):
        trained.append(set(rows.tolist()))
        return lambda images: torch.zeros(len(images), 2)

    def remember_spread(graph, rows, labels, n_classes):
        spread.append(set(rows.tolist()))
        return np.full((graph.shape[0], n_classes), 0.5)

    monkeypatch.setattr("transop.semi_supervised.learner._Learner.train", remember)
    monkeypatch.setattr("transop.semi_supervised.learner.spread_labels", remember_spread)
    pictures, known, _ = few_known(40, 12)
    found = learn_from_few_labels(pictures, model, known, n_folds=3)
    assert trained == spread
    assert [len(rows) for rows in trained] == [8, 8, 8, 12]
    hidden = [set(range(12)) - rows for rows in trained[:3]]
    assert set.union(*hidden) == set(range(12))
    assert sum(len(rows) for rows in hidden) == 12
    assert found.expected_accuracy.share == pytest.approx(0.5)
    assert found.graph.expected_accuracy == found.expected_accuracy


def test_labels_that_were_not_given_change_nothing(model, monkeypatch):
    """The source knows all labels; those that are not passed on are shuffled."""
    pictures, known, labels = few_known(60, 10)
    shuffled = np.concatenate([labels[:10], np.random.default_rng(1).permutation(labels[10:])])
    assert not np.array_equal(shuffled, labels)
    seen = []

    def remember(images, **options):
        seen.append(images)
        return model

    monkeypatch.setattr("transop.semi_supervised.learner.fit", remember)
    found = []
    for truth in (labels, shuffled):
        source = load_dataset(pictures, labels=truth)
        source = replace(source, attributes=truth[:, None], factors=truth[:, None])
        found.append(learn_from_few_labels(source, None, known, settings=QUICK, n_folds=2))
    for images in seen:
        assert images.labels is images.attributes is images.factors is None
        assert images.meta.class_names is None
    assert seen[0].content_hash() == seen[1].content_hash()
    first, second = (one.network.state_dict() for one in found)
    assert all(torch.equal(first[name], second[name]) for name in first)
    np.testing.assert_array_equal(found[0].graph.probabilities, found[1].graph.probabilities)
    assert found[0].expected_accuracy == found[1].expected_accuracy


def test_fewer_labels_than_folds_mean_fewer_folds(model, caplog, monkeypatch):
    parts = []
    monkeypatch.setattr(logging.getLogger("transop"), "propagate", True)
    monkeypatch.setattr(
        "transop.semi_supervised.learner._Learner.learn",
        lambda self, known, names, fold, files: parts.append(fold),
    )
    pictures, known, _ = few_known(40, 6)
    learn_from_few_labels(pictures, model, known, n_folds=7)
    assert "'0' has 3 labelled image(s): 3 folds instead of 7" in caplog.text
    assert sorted(parts[0]) == [0, 0, 1, 1, 2, 2]
    learn_from_few_labels(pictures, model, np.where(np.arange(40) < 2, known, -1))
    assert "'0' has 1 labelled image(s): no expected accuracy" in caplog.text
    assert parts[1] is None


def test_expected_accuracy_counts_answers_and_is_never_certain():
    half = ExpectedAccuracy.of(np.array([1.0, 0, 1, 0]))
    assert half.share == 0.5
    assert half.standard_error == pytest.approx((0.25 / 6) ** 0.5)
    perfect = ExpectedAccuracy.of(np.ones(98))
    assert perfect.share == 1
    assert perfect.standard_error == pytest.approx((0.99 * 0.01 / 100) ** 0.5)
    assert str(perfect) == "100.0% ± 1.0%"


def test_a_stored_classifier_gives_the_same_predictions(model, tmp_path):
    pictures, known, _ = few_known(40, 8)
    found = learn_from_few_labels(pictures, model, known, settings=QUICK, n_folds=2)
    found.save_pretrained(tmp_path / "mine")
    loaded = FewLabelClassifier.from_pretrained(tmp_path / "mine")
    images = as_images(draw_bars(30, seed=2)[0])
    torch.testing.assert_close(loaded.probabilities(images), found.probabilities(images))
    assert loaded.predict(images) == found.predict(images)
    same = ("class_names", "expected_accuracy", "n_labelled", "n_unlabelled", "image_shape")
    assert all(getattr(loaded, name) == getattr(found, name) for name in same)
    assert loaded.graph is None
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_what_is_no_classifier_is_refused_in_one_line(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    pictures, known, _ = few_known(40, 8)
    found = learn_from_few_labels(pictures, model, known, settings=QUICK, n_folds=0)
    replace(found, image_shape=(1, 20, 20)).save_pretrained(tmp_path / "larger")
    replace(found, class_names="ab", n_labelled=-1).save_pretrained(tmp_path / "odd")
    for name, message in (
        ("model", "does not describe a transop classifier"),
        ("larger", "does not fit its description"),
        ("odd", "n_labelled = -1"),
        ("nothing", "is not a folder"),
    ):
        with pytest.raises(ArtifactError, match=message) as caught:
            FewLabelClassifier.from_pretrained(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_mistakes_are_named(folder, model):
    pictures, known, labels = few_known(10, 4)
    with pytest.raises(UserError, match="9 entries for 10 images"):
        learn_from_few_labels(pictures, model, labels[:9])
    with pytest.raises(UserError, match="n_folds = 1"):
        learn_from_few_labels(folder, model, n_folds=1)
    with pytest.raises(DataError, match="labelled images of no class"):
        learn_from_few_labels(pictures, model, np.full(10, -1))
    with pytest.raises(DataError, match="labelled images of '2'; give at least one of each"):
        learn_from_few_labels(pictures, model, np.where(known == 1, 2, -1))
    (folder / "unlabelled").rename(folder / "Unlabeled")  # another spelling of the same
    assert learn_from_few_labels(folder, model, settings=QUICK, n_folds=0).n_unlabelled == 60
    (folder / "Unlabeled").rename(folder / "others")
    with pytest.raises(DataError, match="no subfolder 'unlabelled'"):
        learn_from_few_labels(folder, model)
