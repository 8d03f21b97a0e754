"""Baselines train through the run folder, and a stopped run continues to the same bits."""

import numpy as np
import pytest
import torch

from transop.artifacts import RunFolder, read_json
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.errors import ArtifactError, SettingsError
from transop_paper.baselines import BASELINES
from transop_paper.baselines.settings import BaselineSettings, baseline_settings
from transop_paper.baselines.training import train_baseline

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
    settings = baseline_settings("demo", method, SMALL)
    model = train_baseline(settings, RunFolder(tmp_path), dataset=spots)
    images = spots.batch(spots.splits["test"])
    again = BASELINES[method].from_pretrained(tmp_path)
    torch.testing.assert_close(again.encode(images), model.encode(images))
    assert RunFolder(tmp_path).finished_phases()["autoencoder"]["test_mse"] > 0
    assert read_json(tmp_path / "config.json")["method"] == method
    assert not torch.equal(again.latent_covariance, torch.eye(3))


@pytest.mark.parametrize("method", BASELINES)
def test_a_stopped_baseline_continues_to_the_same_weights(method, spots, tmp_path):
    settings = baseline_settings("demo", method, SMALL)
    whole = train_baseline(settings, RunFolder(tmp_path / "whole"), dataset=spots)
    folder = RunFolder(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        train_baseline(settings, folder, dataset=spots, progress=stop_after(7))
    resumed = train_baseline(settings, folder, dataset=spots, resume=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_a_heavier_penalty_flattens_the_encoder(spots, tmp_path):
    slopes = {}
    for weight in (0.0, 10.0):
        overrides = [f"contractive.penalty_weight={weight}", "autoencoder.epochs=10"]
        settings = baseline_settings("demo", "cae", [*SMALL, *overrides])
        model = train_baseline(settings, RunFolder(tmp_path / f"{weight}"), dataset=spots)
        images = spots.batch(spots.splits["test"])
        shifted = (images + 0.01 * torch.randn(images.shape)).clamp(0, 1)
        slopes[weight] = (model.encode(shifted) - model.encode(images)).norm().item()
    assert slopes[10.0] < 0.7 * slopes[0.0]


def test_an_autoencoder_can_be_taken_over_from_another_run(spots, tmp_path):
    plain = train_baseline(
        baseline_settings("demo", "ae", SMALL), RunFolder(tmp_path / "a"), dataset=spots
    )
    taken = [*SMALL, f"autoencoder.weights='{tmp_path / 'a'}'"]
    settings = baseline_settings("demo", "dense", [*taken, "fine_tuning.epochs=0"])
    dense = train_baseline(settings, RunFolder(tmp_path / "b"), dataset=spots)
    for name, value in plain.network.state_dict().items():
        assert torch.equal(dense.network.state_dict()[name], value), name
    wider = baseline_settings("demo", "ae", [*taken, "autoencoder.width=5"])
    with pytest.raises(ArtifactError, match=r"autoencoder\.weights: the network in .* is another"):
        train_baseline(wider, RunFolder(tmp_path / "c"), dataset=spots)


def test_the_library_points_to_the_command_that_opens_baselines(spots, tmp_path):
    settings = baseline_settings("demo", "cae", SMALL)
    (tmp_path / "config.toml").write_text(settings.to_toml())
    assert load_settings(tmp_path / "config.toml", (), BaselineSettings) == settings
    with pytest.raises(SettingsError, match=r"settings of a baseline.* transop baseline"):
        load_settings(tmp_path / "config.toml")


def test_the_beta_vae_has_the_papers_weight_on_every_data_set():
    recipes = ("mnist", "fashion-mnist", "celeba")
    betas = {name: baseline_settings(name, "beta-vae").beta_vae.beta for name in recipes}
    assert betas == {"mnist": 5, "fashion-mnist": 5, "celeba": 10}


def test_a_run_of_version_0_1_opens_without_the_baselines_settings(tmp_path):
    old = load_settings("demo").to_toml()
    old = 'method = "mae"\n' + old + "[contractive]\npenalty_weight = 1.0\n[beta_vae]\nbeta = 5.0\n"
    (tmp_path / "config.toml").write_text(old + "[dense]\nhidden = 256\n")
    assert load_settings(tmp_path / "config.toml") == load_settings("demo")
