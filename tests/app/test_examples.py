"""The examples run as they stand, on a small data set in place of the downloaded one."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import transop
from transop_paper.baselines import LinearAutoencoder

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def few_digits(monkeypatch):
    """Let every example load 150 noisy bars instead of real digits."""
    chance = np.random.default_rng(0)
    images = np.zeros((200, 16, 16))
    for image, place in zip(images, chance.integers(2, 13, 200), strict=True):
        image[:, place : place + 2] = 1.0
    images = np.clip(images + 0.1 * chance.random(images.shape), 0, 1)
    small = transop.load_dataset(images)
    monkeypatch.setattr(transop, "load_dataset", lambda *_, **__: small, raising=False)


@pytest.mark.parametrize("name", ["own_autoencoder", "embedding_without_decoder"])
@pytest.mark.usefixtures("few_digits")
def test_an_example_is_short_and_runs(name, capsys):
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text().splitlines()) < 40
    with torch.random.fork_rng():
        runpy.run_path(str(file), run_name="__main__")
    assert "path (" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["ours", "ae"])
def test_extrapolation_is_measured_for_runs_and_baselines(
    method, full_run, tmp_path, monkeypatch, capsys
):
    measured = full_run
    if method == "ae":
        size = {"image_size": 16, "channels": 1}
        network = LinearAutoencoder.build({}, name="conv", latent_dimension=4, width=4, **size)
        network.save_pretrained(measured := tmp_path / "ae")
        settings = (full_run / "config.toml").read_text()
        (measured / "config.toml").write_text(f'method = "ae"\n{settings}')
    script = str(EXAMPLES / "measure_extrapolation.py")
    options = ["--classifier", str(full_run), "--pairs-per-class", "5", "--residual", "0.3"]
    monkeypatch.setattr(sys, "argv", [script, str(measured), *options])
    runpy.run_path(script, run_name="__main__")
    assert "share of the distance covered" in capsys.readouterr().out
