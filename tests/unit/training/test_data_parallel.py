import pytest
import torch

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.training import train

SETTINGS = [
    "autoencoder.network=conv",
    "autoencoder.width=4",
    "autoencoder.latent_dimension=4",
    "autoencoder.batch_size=32",
    "autoencoder.epochs=2",
    "pairs.strategy=pixel",
    "operators.n_operators=3",
    "operators.batch_size=32",
    "operators.epochs=1",
    "fine_tuning.batch_size=32",
    "fine_tuning.network_steps=2",
    "fine_tuning.operator_steps=2",
    "fine_tuning.epochs=1",
    "classifier.batch_size=32",
    "classifier.epochs=1",
    "coefficient_encoder.batch_size=32",
    "coefficient_encoder.epochs=1",
    "coefficient_encoder.hidden=[8]",
    "coefficient_encoder.distil_samples=1000",
    "runtime.device=cpu",
]


@pytest.mark.slow
def test_two_processes_share_every_batch_and_learn_about_the_same(tmp_path, bars, monkeypatch):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))
    one = train(load_settings("demo", SETTINGS), RunFolder(tmp_path / "one"), dataset=bars)
    settings = load_settings("demo", [*SETTINGS, "runtime.devices=2"])
    two = train(settings, RunFolder(tmp_path / "two"), dataset=bars)
    assert two.phases == one.phases
    facts = RunFolder(tmp_path / "two").finished_phases()
    expected = RunFolder(tmp_path / "one").finished_phases()
    mse = [f["autoencoder"]["test_mse"] for f in (facts, expected)]
    assert mse[0] == pytest.approx(mse[1], rel=0.1)
    difference = (one.operators.weight - two.operators.weight).abs().max()
    assert difference < 0.1 * one.operators.weight.abs().max()
    assert torch.isfinite(two.operators.weight).all()
