import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import transop
from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import load_dataset
from transop.errors import ArtifactError, DataError, SettingsError
from transop.model import ManifoldAutoencoder
from transop.training import fit, phases, train

TINY = [
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
PHASES = ("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))


def tiny(*overrides):
    return load_settings("demo", [*TINY, *overrides])


def same_bits(a, b):
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def interrupt_at(phase, step):
    """A progress that asks to stop, as Ctrl-C would, before one step of one phase."""

    def progress(items, description, total=None):
        for item in items:
            if description == phase and item == step:
                signal.raise_signal(signal.SIGINT)
            yield item

    return progress


@pytest.fixture(scope="module")
def finished(tmp_path_factory, bars):
    """A run with all its phases: its folder and its model."""
    folder = RunFolder(tmp_path_factory.mktemp("finished") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSOP_CACHE", str(folder.path.parent / "cache"))
        model = fit(bars, overrides=TINY, out=folder.path, seed=3)
    return folder, model


def test_a_run_interrupted_in_every_phase_ends_with_the_same_bits(tmp_path, bars, finished):
    whole = finished[1]
    folder = RunFolder(tmp_path / "cut")
    for number, phase in enumerate([*PHASES[:4], "distillation", PHASES[4]]):
        with pytest.raises(KeyboardInterrupt):
            train(
                tiny("runtime.seed=3"),
                folder,
                dataset=bars,
                resume=number > 0,
                progress=interrupt_at(phase, 1),
            )
    resumed = train(tiny("runtime.seed=3"), folder, dataset=bars, resume=True)
    assert resumed.phases == PHASES
    assert same_bits(whole, resumed)


def test_a_run_stopped_at_its_very_end_repeats_no_step(tmp_path, bars, finished, monkeypatch):
    conclude = phases._conclude

    def stop_before_the_last_is_stored(session, model, phase, *rest):
        if phase == PHASES[-1]:
            raise KeyboardInterrupt
        conclude(session, model, phase, *rest)

    settings = tiny("runtime.seed=3", "runtime.checkpoint_seconds=0")
    folder = RunFolder(tmp_path / "cut")
    with monkeypatch.context() as patch:
        patch.setattr(phases, "_conclude", stop_before_the_last_is_stored)
        with pytest.raises(KeyboardInterrupt):
            train(settings, folder, dataset=bars)
    train(settings, folder, dataset=bars, resume=True)
    lines = [[(r["phase"], r["step"]) for r in f.read_metrics()] for f in (folder, finished[0])]
    assert lines[0] == lines[1]
    assert not list(folder.checkpoints.glob("*"))


def test_a_run_folder_holds_everything_needed_to_repeat_and_load_it(finished):
    folder, model = finished
    assert load_settings(folder.config_file).runtime.seed == 3
    assert folder.environment_file.exists()
    facts = folder.finished_phases()
    assert tuple(facts) == PHASES
    assert facts["autoencoder"]["test_mse"] > 0
    assert facts["operators"]["latent_scale"] == model.latent_scale
    assert 0 <= facts["operators"]["label_agreement"] <= 1
    assert facts["classifier"]["test_accuracy"] > 0
    assert {"identity", "kept_encoded", "kept_fixed"} <= facts["coefficient_encoder"].keys()
    assert not list(folder.checkpoints.glob("*"))
    assert same_bits(model, ManifoldAutoencoder.from_pretrained(folder.path))
    assert {r["phase"] for r in folder.read_metrics()} >= set(PHASES)


def test_a_finished_run_is_not_trained_again(bars, finished):
    folder, model = finished
    before = folder.metrics_file.read_bytes()
    again = train(tiny("runtime.seed=3"), folder, dataset=bars, resume=True)
    assert same_bits(model, again)
    assert folder.metrics_file.read_bytes() == before


def test_an_array_is_enough_and_nothing_need_be_kept(bars):
    settings = [*TINY, "operators.epochs=0.5", "fine_tuning.epochs=0"]
    model = transop.fit(bars.images, overrides=settings)
    assert model.phases == ("autoencoder", "operators", "classifier", "coefficient_encoder")
    assert model.config()["identity"]["source"] == "graph"  # no labels
    assert model.encode(bars.batch([0])).shape == (1, 4)


def test_phases_without_epochs_are_left_out(tmp_path, bars):
    settings = tiny("fine_tuning.epochs=0", "coefficient_encoder.epochs=0", "operators.epochs=0")
    model = train(settings, RunFolder(tmp_path / "run"), dataset=bars)
    assert model.phases == ("autoencoder", "classifier")


def test_a_new_run_never_overwrites_an_old_one(tmp_path, bars):
    folder = RunFolder(tmp_path / "run")
    quick = tiny("operators.epochs=0", "fine_tuning.epochs=0", "classifier.epochs=0")
    train(quick, folder, dataset=bars)
    with pytest.raises(ArtifactError, match=r"already holds a run.*--resume"):
        train(quick, folder, dataset=bars)


def test_a_run_cannot_be_continued_with_other_settings(tmp_path, bars):
    folder = RunFolder(tmp_path / "run")
    quick = ["operators.epochs=0", "fine_tuning.epochs=0", "classifier.epochs=0"]
    train(tiny(*quick), folder, dataset=bars)
    with pytest.raises(ArtifactError, match="other settings in 'autoencoder'"):
        train(tiny(*quick, "autoencoder.width=8"), folder, dataset=bars, resume=True)
    with pytest.raises(ArtifactError, match="other settings in 'runtime'"):
        train(tiny(*quick, "runtime.seed=5"), folder, dataset=bars, resume=True)
    train(tiny(*quick, "runtime.checkpoint_seconds=5"), folder, dataset=bars, resume=True)


@pytest.fixture
def images_used(tmp_path, monkeypatch):
    """Start a run and stop when it has its images ready; give them."""

    class ReadyError(Exception):
        pass

    def stop(session, plan, dataset):
        raise ReadyError(dataset)

    # By its path the module cannot be had: the function `fit` has the same name.
    monkeypatch.setattr(sys.modules["transop.training.phases"], "_run_phases", stop)

    def start(settings, dataset):
        with pytest.raises(ReadyError) as caught:
            train(settings, RunFolder(tmp_path / "run"), dataset=dataset)
        return caught.value.args[0]

    return start


def test_a_limit_keeps_training_images_of_every_class_of_a_sorted_folder(images_used, bars):
    train = bars.splits["train"]
    used = images_used(tiny("data.limit=20"), replace(bars, labels=np.arange(len(bars)) // 40))
    kept = used.splits["train"]
    assert len(kept) == 20
    assert set(kept) < set(train)
    assert set(used.labels[kept]) == set(used.labels[train])
    assert len(used.splits["test"]) == 16


@pytest.mark.parametrize(("size", "expected"), [(8, 16), (40, 40), (200, 64)])
def test_images_of_any_size_are_brought_to_one_the_networks_take(images_used, size, expected):
    images = np.random.default_rng(0).integers(0, 255, (20, size, size, 3), np.uint8)
    assert images_used(tiny(), load_dataset(images)).image_size == expected


def test_images_that_cannot_be_learned_from_are_refused(tmp_path):
    same = np.zeros((20, 1, 16, 16), np.uint8)
    with pytest.raises(DataError, match="identical"):
        fit(same, overrides=TINY)


def test_a_device_that_is_not_there_is_refused(bars):
    with pytest.raises(SettingsError, match=r"runtime\.device = 'tpu'"):
        fit(bars, overrides=TINY, device="tpu")
    with pytest.raises(SettingsError, match=r"runtime\.device = 'vulkan'"):
        fit(bars, overrides=TINY, device=torch.device("vulkan"))
