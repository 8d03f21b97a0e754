import numpy as np
import pytest
import torch

from transop.data import DatasetMeta, ImageDataset
from transop.errors import UserError
from transop.evaluation import Invariance, draw_strip, measure_invariance
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators


@pytest.fixture
def dataset():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (30, 1, 16, 16), np.uint8)
    rows = np.arange(30)
    labels = (rows % 3).astype(np.int64)
    splits = {"train": rows[:18], "test": rows[18:]}
    meta = DatasetMeta("noise", "drawn", class_names=("ant", "bee", "cow"))
    return ImageDataset(images, labels, splits, meta)


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
        encoder = CoefficientEncoder(4, 5, hidden=(8,))
        judge = build_classifier("lenet", image_size=16, channels=1, n_classes=3)
    operators = TransportOperators(5, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        operators.weight[2] = 0  # this one has died
    return ManifoldAutoencoder(network, operators, coefficient_encoder=encoder, classifier=judge)


def test_scales_are_averaged_over_test_images_and_living_operators(model, dataset):
    found = measure_invariance(model, dataset)
    assert found.operators == (0, 1, 3, 4)
    assert found.class_names == ("ant", "bee", "cow")
    assert found.counts.tolist() == [4, 4, 4]
    rows = dataset.splits["test"][dataset.labels[dataset.splits["test"]] == 1]
    images = dataset.batch(rows)
    scales = model.coefficient_scales(images)[:, [0, 1, 3, 4]]
    np.testing.assert_allclose(found.scales[1], scales.mean(0), rtol=1e-5)
    z = model.encode(images)
    speed = (z @ model.operators.operators[3].detach().mT).norm(dim=1) / z.norm(dim=1)
    np.testing.assert_allclose(found.moves[1, 2], (speed * scales[:, 2]).mean(), rtol=1e-5)
    assert all(found.examples[k] in dataset.splits["test"] for k in range(3))


def test_a_few_images_are_of_all_classes_where_these_come_one_after_another(model, dataset):
    dataset.labels[dataset.splits["test"]] = np.repeat([0, 1, 2], 4)
    assert measure_invariance(model, dataset, n_images=6).counts.tolist() == [2, 2, 2]


def test_images_without_labels_are_named_by_the_classifier(model, dataset):
    bare = ImageDataset(dataset.images, None, dataset.splits, DatasetMeta("noise", "drawn"))
    found = measure_invariance(model, bare)
    opinions = model.classify(dataset.batch(dataset.splits["test"])).argmax(1)
    expected = torch.bincount(opinions, minlength=len(found.counts))
    assert found.counts.tolist() == expected.tolist()


def test_operators_are_ranked_and_extremes_use_each_operator_once():
    scales = np.array([[0.3, 0.1, 0.2], [0.1, 0.1, 0.8], [np.nan] * 3], np.float32)
    moves = scales * np.array([1, 10, 1], np.float32)  # the second operator is the strong one
    found = Invariance(
        ("a", "b", "c"), (0, 4, 7), scales, moves, np.array([2, 3, 0]), np.array([0, 1, -1])
    )
    assert [cell.operator for cell in found.ranking(0)] == [4, 0, 7]
    high, low = found.extremes(2)
    assert [(cell.label, cell.operator) for cell in high] == [(1, 7), (0, 0)]
    assert [(cell.label, cell.operator) for cell in low] == [(0, 7), (1, 0)]
    assert low[0].scale == pytest.approx(0.2)


def test_a_strip_passes_through_the_reconstruction(model, dataset):
    found = measure_invariance(model, dataset)
    cell = found.ranking(1)[0]
    strip = draw_strip(model, dataset, found, cell)
    example = dataset.batch(found.examples[1:2])
    middle = len(strip.frames) // 2
    np.testing.assert_allclose(strip.frames[middle], model.reconstruct(example)[0], atol=1e-5)
    column = found.operators.index(cell.operator)
    assert strip.coefficients[-1] == pytest.approx(8 * found.scales[:, column].mean(), rel=1e-5)
    assert strip.opinions.shape == (len(strip.frames),)


def test_a_run_without_living_operators_is_refused(model, dataset):
    with torch.no_grad():
        model.operators.weight.zero_()
    with pytest.raises(UserError, match="no operator"):
        measure_invariance(model, dataset)
