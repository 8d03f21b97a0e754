"""Runs around modules of the user's own, named by ``autoencoder.factory``."""

import sys
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.errors import ArtifactError, SettingsError
from transop.evaluation import draw_strip, measure_invariance
from transop.model import ManifoldAutoencoder
from transop.training import train

QUICK = [
    *("recipe=own", "pairs.strategy=latent", "operators.n_operators=2", "operators.epochs=1"),
    *("autoencoder.latent_dimension=4", "autoencoder.factory=users_code:make"),
    *("fine_tuning.epochs=0", "classifier.domain=latent", "classifier.epochs=1"),
    *("coefficient_encoder.epochs=1", "operators.batch_size=16", "runtime.device=cpu"),
]


def encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(6))


def decoder():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 256), nn.Unflatten(1, (1, 16, 16)), nn.Sigmoid())


@pytest.fixture
def users_code(monkeypatch):
    code = ModuleType("users_code")
    monkeypatch.setitem(sys.modules, "users_code", code)
    return code


def made(bars, with_decoder):
    first = encoder()
    first(bars.batch([0, 1]))
    return first, decoder() if with_decoder else None


@pytest.mark.parametrize("with_decoder", [True, False])
def test_a_run_around_own_modules_trains_and_resumes(bars, users_code, tmp_path, with_decoder):
    users_code.make = lambda: made(bars, with_decoder)
    settings, folder = load_settings("demo", QUICK), RunFolder(tmp_path / "run")
    model = train(settings, folder, dataset=bars)
    assert model.latent_dimension == 4
    facts = folder.finished_phases()["autoencoder"]
    assert 0 < facts["explained_variance"] <= 1
    assert ("test_mse" in facts) is with_decoder
    again = train(settings, folder, dataset=bars, resume=True)
    x = bars.batch([0, 1, 2])
    torch.testing.assert_close(again.encode(x), model.encode(x))
    with pytest.raises(ArtifactError, match="your own, pass encoder="):
        ManifoldAutoencoder.from_pretrained(folder.path)


def test_invariance_is_measured_and_drawn_without_a_decoder(bars, users_code, tmp_path):
    users_code.make = lambda: made(bars, False)
    mirrored = [*QUICK, "beyond_paper.origin=mirrored"]
    model = train(load_settings("demo", mirrored), RunFolder(tmp_path / "run"), dataset=bars)
    found = measure_invariance(model, bars)
    cell = found.ranking(0)[0]
    strip = draw_strip(model, bars, found, cell)
    known = {tuple(image.flatten().tolist()) for image in bars.batch(bars.splits["train"])}
    shown = {tuple(image.flatten().tolist()) for image in torch.from_numpy(strip.frames)}
    assert shown <= known
    rows = bars.splits["train"][:5]
    torch.testing.assert_close(model.decode(model.encode(bars.batch(rows))), bars.batch(rows))


def test_weights_are_loaded_into_the_factorys_modules(bars, users_code, tmp_path):
    first, second = made(bars, True)
    with torch.no_grad():
        first[1].weight.fill_(0.01)
    both = nn.ModuleDict({"encoder": first, "decoder": second})
    save_file(both.state_dict(), tmp_path / "w.safetensors")
    users_code.make = lambda: made(bars, True)
    weights = f"autoencoder.weights={str(tmp_path / 'w.safetensors')!r}"
    off = [f"{p}.epochs=0" for p in ("operators", "classifier", "coefficient_encoder")]
    changes = [*QUICK, weights, *off, "autoencoder.latent_dimension=6"]
    model = train(load_settings("demo", changes), RunFolder(tmp_path / "run"), dataset=bars)
    assert float(model.autoencoder.encoder[1].weight.detach().mean()) == pytest.approx(0.01)
    assert model.latent_dimension == 6


def test_an_image_classifier_needs_a_decoder(bars, users_code, tmp_path):
    users_code.make = lambda: made(bars, False)
    settings = load_settings("demo", [*QUICK, "classifier.domain=image"])
    with pytest.raises(SettingsError, match=r"set classifier\.domain = 'latent'"):
        train(settings, RunFolder(tmp_path / "run"), dataset=bars)


@pytest.mark.parametrize("answer", [None, 3, ("a", "b"), (nn.Identity(),)])
def test_a_factory_that_returns_no_modules_is_named(bars, users_code, tmp_path, answer):
    users_code.make = lambda: answer
    with pytest.raises(SettingsError, match=r"autoencoder\.factory.*return \(encoder, decoder\)"):
        train(load_settings("demo", QUICK), RunFolder(tmp_path / "run"), dataset=bars)


def test_fine_tuning_changes_modules_whose_whole_latents_move(bars, users_code, tmp_path):
    first, second = made(bars, True)
    before = first[1].weight.detach().clone()
    users_code.make = lambda: (first, second)
    off = [f"{p}.epochs=0" for p in ("classifier", "coefficient_encoder")]
    tuned = [*QUICK, *off, "autoencoder.latent_dimension=6", "fine_tuning.epochs=1"]
    model = train(load_settings("demo", tuned), RunFolder(tmp_path / "run"), dataset=bars)
    assert "fine_tuning" in model.phases
    assert not torch.equal(model.autoencoder.encoder[1].weight, before)
