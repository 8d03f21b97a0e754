"""The demo's pictures, on a model with random weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from transop.config import PHASES
from transop.data import load_dataset
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder
from transop.operators import TransportOperators
from transop_app.cli.showcase import FIGURES, draw_showcase


@pytest.fixture
def model():
    torch.manual_seed(0)
    shape = {"image_size": 28, "channels": 1, "latent_dimension": 4, "width": 2}
    return ManifoldAutoencoder(
        build_autoencoder("mnist", **shape),
        TransportOperators(3, 4, generator=torch.Generator().manual_seed(0)),
        coefficient_encoder=CoefficientEncoder(4, 3),
        phases=PHASES,
    )


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def drawn(model, dataset, folder):
    return {file.stem for file in draw_showcase(model, dataset, folder)}


def test_a_finished_model_gets_every_figure_beside_its_numbers(model, digits, tmp_path):
    assert drawn(model, digits, tmp_path) == set(FIGURES)
    numbers = {}
    for name in FIGURES:
        assert (tmp_path / f"{name}.svg").exists()
        with np.load(tmp_path / f"{name}.npz") as file:
            numbers[name] = dict(file)
            assert all(np.isfinite(values).all() for values in file.values())
    middle = numbers["operators"]["frames"][:, 4]  # where no operator has moved the image yet
    image = numbers["reconstructions"]["reconstruction"][-1]
    np.testing.assert_allclose(middle, np.broadcast_to(image, middle.shape), atol=1e-5)


def test_a_model_in_progress_gets_the_figures_it_can_have(model, digits, tmp_path):
    model.phases = ("autoencoder",)
    assert drawn(model, digits, tmp_path) == {"reconstructions"}


@pytest.mark.parametrize("labels", [np.arange(10), np.arange(10) // 2, None])
def test_classes_without_two_held_out_images_do_not_stop_the_drawing(
    model, digits, tmp_path, labels
):
    few = digits.subset(np.arange(10))
    few = replace(few, labels=labels, splits={"train": np.arange(9), "test": np.array([9])})
    assert drawn(model, few, tmp_path) == set(FIGURES)


def test_unlabelled_images_and_dead_operators_do_not_stop_the_drawing(model, digits, tmp_path):
    model.operators.weight.data.zero_()
    assert drawn(model, replace(digits, labels=None), tmp_path) == set(FIGURES)
