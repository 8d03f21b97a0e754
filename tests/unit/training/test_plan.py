import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch

import transop
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.errors import ArtifactError, DataError, SettingsError, UserError
from transop.training import plan as planning
from transop.training.plan import make_plan, with_epochs


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch):
    """Every piece of work takes two milliseconds, whatever else the machine does."""
    monkeypatch.setattr(planning, "_seconds", lambda work, warm=True: 0.002)


def unlabelled(bars):
    return replace(bars, labels=None)


def pictures(n, size=16, channels=1):
    pixels = np.random.default_rng(0).integers(0, 256, (n, channels, size, size)).astype(np.uint8)
    rows = np.arange(n)
    splits = {"train": rows[: n * 4 // 5], "test": rows[n * 4 // 5 :]}
    return ImageDataset(pixels, None, splits, DatasetMeta("pictures", "drawn"))


def test_the_plan_is_toml_that_train_accepts(bars, tmp_path):
    plan, images = make_plan(unlabelled(bars), 1)
    file = tmp_path / "plan.toml"
    file.write_text(plan.settings.to_toml())
    assert load_settings(file) == plan.settings
    assert tomllib.loads(file.read_text())["operators"]["objective"] == "data"
    assert images.image_shape == (1, 16, 16)


def test_trials_leave_global_randomness_alone(bars):
    state = torch.random.get_rng_state()
    make_plan(unlabelled(bars), 1)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_estimate_stays_within_the_minutes_and_more_minutes_mean_more_steps(bars):
    short, _ = make_plan(unlabelled(bars), 1)
    long, _ = make_plan(unlabelled(bars), 30)
    assert short.total <= 1.05
    assert long.settings.autoencoder.width >= short.settings.autoencoder.width
    pace = {"autoencoder": 0.02, "operators": 0.004, "coefficient_encoder": 0.01}
    few, minute = with_epochs(short.settings, pace, 60, 10_000)
    many, ten_minutes = with_epochs(short.settings, pace, 600, 10_000)
    assert many.autoencoder.epochs >= 10 * few.autoencoder.epochs
    for takes, seconds in ((minute, 60), (ten_minutes, 600)):
        assert 0.9 * seconds <= sum(takes.values()) <= 1.01 * seconds


def test_a_slow_machine_keeps_the_default_objective(bars, monkeypatch):
    monkeypatch.setattr(planning._Planner, "_time_operators", lambda self, batch: 1.0)
    plan, _ = make_plan(unlabelled(bars), 1)
    assert plan.settings.operators.objective == "settings"


def test_identity_is_chosen_and_said(bars):
    assert "labels" in make_plan(bars, 1)[0].reasons[-1]
    assert "neighbour graph" in make_plan(unlabelled(bars), 1)[0].reasons[-1]
    assert "half the way" in make_plan(pictures(30), 1)[0].reasons[-1]


def test_thirty_images_get_a_plan_they_can_carry():
    plan, images = make_plan(pictures(30, size=40, channels=3), 1)
    assert plan.settings.autoencoder.latent_dimension <= 6
    assert plan.settings.autoencoder.batch_size <= len(images.splits["train"])


def test_large_images_are_made_smaller():
    plan, images = make_plan(pictures(40, size=100), 1)
    assert images.image_size <= 64
    assert plan.settings.data.image_size == images.image_size


@pytest.mark.parametrize("minutes", [0, -3, float("nan"), 1e9])
def test_impossible_minutes_are_refused(bars, minutes):
    with pytest.raises(UserError, match=r"minutes = .* must be from 0\.2 to 10,000"):
        make_plan(bars, minutes)


def test_fit_with_minutes_goes_through_all_phases_and_keeps_what_it_did(
    bars, tmp_path, monkeypatch
):
    monkeypatch.setattr(planning, "_seconds", lambda work, warm=True: 0.2)
    for phase in ("operators", "coefficient_encoder"):
        monkeypatch.setitem(planning._MOST_STEPS, phase, 20)
    model = transop.fit(unlabelled(bars), minutes=0.3, out=tmp_path / "run")
    assert model.phases == ("autoencoder", "operators", "classifier", "coefficient_encoder")
    assert model.config()["identity"]["source"] == "graph"
    run = transop.Run.open(tmp_path / "run", data=unlabelled(bars))
    assert run.phases["operators"]["sparsity_weight"] == pytest.approx(model.sparsity_weight)
    assert run.settings.recipe == "fit"
    assert run.settings.operators.epochs == 20, "the clock allowed all that is useful"


def test_a_stopped_fit_goes_on_when_it_is_called_again_with_resume(bars, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "_seconds", lambda work, warm=True: 0.2)
    for phase in ("operators", "coefficient_encoder"):
        monkeypatch.setitem(planning._MOST_STEPS, phase, 20)

    def stop(*_):
        raise KeyboardInterrupt

    call = {"minutes": 0.3, "out": tmp_path / "run"}
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules["transop.training.fit"].PHASES, "operators", stop)
        with pytest.raises(KeyboardInterrupt):
            transop.fit(unlabelled(bars), **call)
    with pytest.raises(SettingsError, match="seed = 3, but the run in"):
        transop.fit(unlabelled(bars), **call, seed=3, resume=True)
    with pytest.raises(DataError, match="trained on other data"):
        transop.fit(pictures(50), **call, resume=True)
    model = transop.fit(unlabelled(bars), **call, resume=True, device="cpu")
    assert model.phases == ("autoencoder", "operators", "classifier", "coefficient_encoder")
    with pytest.raises(ArtifactError, match="no run in out"):
        transop.fit(bars, minutes=1, out=tmp_path / "none", resume=True)


def test_a_run_that_exists_is_refused_before_anything_is_planned(bars, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("")
    monkeypatch.setattr(sys.modules["transop.training.fit"], "make_plan", None)
    with pytest.raises(ArtifactError, match="already holds a run"):
        transop.fit(bars, minutes=1, out=tmp_path)


def test_minutes_and_a_recipe_exclude_each_other(bars):
    with pytest.raises(SettingsError, match="minutes = 1 chooses every setting"):
        transop.fit(bars, "demo", minutes=1)
