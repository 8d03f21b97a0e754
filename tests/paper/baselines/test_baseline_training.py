"""Baselines train through the run folder, and a stopped run continues to the same bits."""

import numpy as np
import pytest
import torch

from transop.artifacts import RunFolder, read_json
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.errors import ArtifactError, SettingsError
from transop.training.fit import fit, train
from transop_paper.baselines import BASELINES

SMALL = [
    "autoencoder.width=4",
    "autoencoder.latent_dimension=3",
    "autoencoder.batch_size=16",
    "autoencoder.epochs=4",
    "operators.epochs=2",
    "operators.batch_size=16",
    "operators.n_operators=2",
    "fine_tuning.epochs=1",
    "fine_tuning.batch_size=16",
    "pairs.strategy=pixel",
    "runtime.device=cpu",
    "runtime.checkpoint_seconds=0",
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def spots():
    """A bright spot at a random place."""
    generator = np.random.default_rng(0)
    yy, xx = np.mgrid[:16, :16]
    centres = generator.uniform(4, 12, (96, 2, 1, 1))
    pictures = 255 * np.exp(-((yy - centres[:, 0]) ** 2 + (xx - centres[:, 1]) ** 2) / 8)
    rows = np.arange(96)
    splits = {"train": rows[:80], "test": rows[80:]}
    labels = (centres[:, 0, 0, 0] > 8).astype(np.int64)
    meta = DatasetMeta("spots", "drawn")
    return ImageDataset(pictures.astype(np.uint8)[:, None], labels, splits, meta)


def stop_after(n_steps):
    def progress(items, description, total=None):
        for count, item in enumerate(items):
            if count == n_steps:
                raise KeyboardInterrupt
            yield item

    return progress


@pytest.mark.parametrize("method", BASELINES)
def test_a_baseline_leaves_a_run_folder_that_loads(method, spots, tmp_path):
    settings = load_settings("demo", [*SMALL, f"method={method}"])
    model = train(settings, RunFolder(tmp_path), dataset=spots)
    images = spots.batch(spots.splits["test"])
    again = BASELINES[method].from_pretrained(tmp_path)
    torch.testing.assert_close(again.encode(images), model.encode(images))
    assert RunFolder(tmp_path).finished_phases()["autoencoder"]["test_mse"] > 0
    assert read_json(tmp_path / "config.json")["method"] == method
    assert not torch.equal(again.latent_covariance, torch.eye(3))


@pytest.mark.parametrize("method", BASELINES)
def test_a_stopped_baseline_continues_to_the_same_weights(method, spots, tmp_path):
    settings = load_settings("demo", [*SMALL, f"method={method}"])
    whole = train(settings, RunFolder(tmp_path / "whole"), dataset=spots)
    folder = RunFolder(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        train(settings, folder, dataset=spots, progress=stop_after(7))
    resumed = train(settings, folder, dataset=spots, resume=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_a_heavier_penalty_flattens_the_encoder(spots, tmp_path):
    slopes = {}
    for weight in (0.0, 10.0):
        overrides = ["method=cae", f"contractive.penalty_weight={weight}"]
        settings = load_settings("demo", [*SMALL, *overrides, "autoencoder.epochs=10"])
        model = train(settings, RunFolder(tmp_path / f"{weight}"), dataset=spots)
        images = spots.batch(spots.splits["test"])
        shifted = (images + 0.01 * torch.randn(images.shape)).clamp(0, 1)
        slopes[weight] = (model.encode(shifted) - model.encode(images)).norm().item()
    assert slopes[10.0] < 0.7 * slopes[0.0]


def test_an_autoencoder_can_be_taken_over_from_another_run(spots, tmp_path):
    plain = train(
        load_settings("demo", [*SMALL, "method=ae"]), RunFolder(tmp_path / "a"), dataset=spots
    )
    taken = [f"autoencoder.weights='{tmp_path / 'a'}'", "method=dense", "fine_tuning.epochs=0"]
    dense = train(load_settings("demo", [*SMALL, *taken]), RunFolder(tmp_path / "b"), dataset=spots)
    for name, value in plain.network.state_dict().items():
        assert torch.equal(dense.network.state_dict()[name], value), name
    wider = [*SMALL, "autoencoder.width=5", f"autoencoder.weights='{tmp_path / 'a'}'", "method=ae"]
    with pytest.raises(ArtifactError, match=r"autoencoder\.weights: the network in .* is another"):
        train(load_settings("demo", wider), RunFolder(tmp_path / "c"), dataset=spots)


def test_fit_points_to_the_command_that_trains_baselines(spots):
    with pytest.raises(SettingsError, match="--method cae"):
        fit(spots, overrides=["method=cae"])
