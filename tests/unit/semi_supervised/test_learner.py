import numpy as np
import pytest
import torch
from PIL import Image

from transop.errors import DataError, UserError
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop.semi_supervised import Consistency, learn_from_few_labels

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


def test_a_folder_becomes_a_classifier_with_its_expected_accuracy(folder, model):
    found = learn_from_few_labels(folder, model, settings=QUICK, n_folds=3)
    assert found.class_names == ("lying", "standing")
    assert (found.n_labelled, found.n_unlabelled) == (12, 60)
    pictures, labels = draw_bars(40, seed=1)
    images = torch.from_numpy(pictures).float()[:, None] / 255
    guesses = found.predict(images)
    right = np.mean([found.class_names.index(g) for g in guesses] == labels)
    assert right > 0.8
    assert found.expected_accuracy > 0.7
    assert 0 <= found.standard_error < 0.2


def test_the_same_seed_gives_the_same_network(model):
    pictures, labels = draw_bars(40)
    known = np.where(np.arange(40) < 8, labels, -1)
    networks = [
        learn_from_few_labels(pictures[:, None], model, known, settings=QUICK, n_folds=0).network
        for _ in range(2)
    ]
    for first, second in zip(*(one.parameters() for one in networks), strict=True):
        assert torch.equal(first, second)


def test_the_hidden_label_is_never_used_for_its_own_image(model, monkeypatch):
    seen = []

    def remember(self, rows, labels):
        seen.append(set(rows.tolist()))
        return lambda images: torch.zeros(len(images), 2)

    monkeypatch.setattr("transop.semi_supervised.learner._Learner.train", remember)
    pictures, labels = draw_bars(40)
    known = np.where(np.arange(40) < 12, labels, -1)
    found = learn_from_few_labels(pictures[:, None], model, known, n_folds=3)
    assert [len(rows) for rows in seen] == [8, 8, 8, 12]
    hidden = [set(range(12)) - rows for rows in seen[:3]]
    assert set.union(*hidden) == set(range(12))
    assert sum(len(rows) for rows in hidden) == 12
    assert found.expected_accuracy == pytest.approx(0.5)


def test_mistakes_are_named(folder, model, tmp_path):
    pictures, labels = draw_bars(10)
    with pytest.raises(UserError, match="9 entries for 10 images"):
        learn_from_few_labels(pictures[:, None], model, labels[:9])
    with pytest.raises(UserError, match="n_folds = 7"):
        learn_from_few_labels(folder, model, settings=QUICK, n_folds=7)
    (folder / "unlabelled").rename(folder / "others")
    with pytest.raises(DataError, match="no subfolder 'unlabelled'"):
        learn_from_few_labels(folder, model)
