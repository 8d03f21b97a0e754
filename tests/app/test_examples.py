"""The examples run as they stand, on a small data set in place of the downloaded one."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import transop

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
