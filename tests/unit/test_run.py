"""A run is opened in one way, knows its data, and refuses other data."""

import json

import numpy as np
import pytest

import transop
from transop.errors import ArtifactError, DataError, UserError
from transop.run import Run
from transop_app import cli

TINY = [
    "autoencoder.epochs=1",
    "autoencoder.width=4",
    "autoencoder.latent_dimension=4",
    "operators.n_operators=3",
    "operators.epochs=1",
    "fine_tuning.epochs=0",
    "classifier.epochs=1",
    "coefficient_encoder.epochs=0",
    "pairs.strategy=pixel",
]


def some_images(seed=0, n=60, size=16):
    return np.random.default_rng(seed).integers(0, 256, (n, 1, size, size), np.uint8)


def as_changes(overrides):
    return [part for change in overrides for part in ("--set", change)]


@pytest.fixture(scope="module")
def on_file(tmp_path_factory):
    """A finished run on an .npz file."""
    folder = tmp_path_factory.mktemp("on-file")
    file = folder / "images.npz"
    np.savez(file, images=some_images(), labels=np.arange(60) % 3)
    transop.fit(file, recipe="demo", out=folder / "run", overrides=TINY)
    return folder / "run", file


@pytest.fixture(scope="module")
def on_array(tmp_path_factory):
    """A finished run on an array that was handed over in Python."""
    folder = tmp_path_factory.mktemp("on-array") / "run"
    transop.fit(some_images(), recipe="demo", out=folder, overrides=TINY)
    return folder


def test_a_run_knows_its_settings_model_data_and_what_was_measured(on_file):
    path, file = on_file
    run = Run.open(path)
    assert run.settings.operators.n_operators == 3
    assert run.model.latent_dimension == 4
    assert list(run.phases) == ["autoencoder", "operators", "classifier"]
    assert run.missing_phases == ["fine_tuning", "coefficient_encoder"]
    assert run.data.source == str(file.resolve())
    assert run.data.n_images == 60
    assert run.data.class_names == ("0", "1", "2")
    assert run.held_out_split == "test"
    assert len(run.held_out) == len(run.held_out_rows) == run.data.splits["test"]
    assert run.seconds > 0
    assert run.environment["seed"] == 0
    assert set(run.loss_curves) <= set(run.phases)
    assert run.latents(run.held_out_rows[:3]).shape == (3, 4)


def test_without_test_images_validation_images_count_as_held_out_then_training_images(on_file):
    run = Run.open(on_file[0])
    rows = run.dataset.splits.pop("test")
    assert run.held_out_split == "validation"
    run.dataset.splits.pop("validation")
    assert run.held_out_split == "train"
    assert len(rows)


def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path):
    with pytest.raises(ArtifactError, match="is not a run folder"):
        Run.open(tmp_path)
    with pytest.raises(UserError, match=r"path = 'xxx.* is too long"):
        Run.open("x" * 5000)


def test_a_phase_that_is_missing_is_named(on_file):
    run = Run.open(on_file[0])
    assert run.require_phase("operators") is run.model
    with pytest.raises(UserError, match="coefficient_encoder"):
        run.require_phase("coefficient_encoder")


def test_a_run_on_an_array_says_so_and_asks_for_the_images(on_array):
    run = Run.open(on_array)
    assert run.data.source == run.settings.data.source == "array"
    with pytest.raises(DataError, match="--data PATH"):
        _ = run.dataset


def test_the_images_of_an_array_can_be_given_again_and_are_checked(on_array, tmp_path):
    np.save(tmp_path / "same.npy", some_images())
    np.save(tmp_path / "other.npy", some_images(seed=1))
    assert len(Run.open(on_array, data=tmp_path / "same.npy").dataset) == 60
    with pytest.raises(DataError, match="trained on other data"):
        _ = Run.open(on_array, data=tmp_path / "other.npy").dataset


@pytest.mark.parametrize("command", ["invariance", "explore"])
def test_no_command_uses_other_images_than_the_run_was_trained_on(
    command, on_array, tmp_path, capfd
):
    np.save(tmp_path / "other.npy", some_images(seed=1))
    arguments = {
        "invariance": ["invariance", str(on_array)],
        "explore": ["explore", str(on_array), "--no-browser"],
    }[command]
    assert cli.run([*arguments, "--data", str(tmp_path / "other.npy")]) == 2
    assert "trained on other data" in capfd.readouterr().err


def test_resuming_a_run_on_an_array_never_trains_on_the_recipes_own_images(on_array, capfd):
    code = cli.run(["train", "demo", *as_changes(TINY), "--out", str(on_array), "--resume"])
    assert code == 2
    assert "--data PATH" in capfd.readouterr().err


def replaced(images, labels):
    return {
        "other images": (some_images(seed=5), labels),
        "other labels": (images, labels[::-1].copy()),
        "fewer images": (images[:50], labels[:50]),
    }


@pytest.mark.parametrize("change", ["other images", "other labels", "fewer images"])
def test_resuming_on_a_file_whose_content_has_changed_is_refused(change, tmp_path, capfd):
    file, out = tmp_path / "images.npz", tmp_path / "run"
    images, labels = some_images(), np.arange(60) % 3
    np.savez(file, images=images, labels=labels)
    changes = as_changes([*TINY, f"data.source='{file}'"])
    assert cli.run(["train", "demo", *changes, "--out", str(out)]) == 0
    for name in ("model.safetensors", "config.json"):
        (out / name).unlink()
    before = sorted(p.name for p in out.rglob("*"))
    new_images, new_labels = replaced(images, labels)[change]
    np.savez(file, images=new_images, labels=new_labels)
    capfd.readouterr()
    assert cli.run(["train", "demo", *changes, "--out", str(out), "--resume"]) == 2
    error = capfd.readouterr().err
    assert "trained on other data" in error
    assert error.count("\n") == 1
    assert sorted(p.name for p in out.rglob("*")) == before


def test_an_interrupted_run_goes_on_where_its_data_moved(on_file, tmp_path):
    path, file = on_file
    moved = tmp_path / "moved.npz"
    moved.write_bytes(file.read_bytes())
    run = Run.open(path, data=moved)
    assert run.resume().phases == run.model.phases


def test_a_run_from_before_records_opens_with_a_warning(on_file, tmp_path, caplog):
    path, _ = on_file
    for name in ("config.toml", "config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((path / name).read_bytes())
    assert len(Run.open(tmp_path).dataset) == 60
    assert "cannot be checked" in caplog.text


def test_a_damaged_record_is_an_error_in_one_line(on_file, tmp_path):
    path, _ = on_file
    (tmp_path / "config.toml").write_bytes((path / "config.toml").read_bytes())
    for text in ("[]", "{}", json.dumps({"source": 3})):
        (tmp_path / "data.json").write_text(text)
        with pytest.raises(ArtifactError, match="does not describe a run's data"):
            _ = Run.open(tmp_path).data


@pytest.mark.parametrize("size", [12, 200])
def test_images_that_were_resized_to_train_are_resized_again_to_look(size, tmp_path):
    file, out = tmp_path / "images.npz", tmp_path / "run"
    np.savez(file, images=some_images(size=size), labels=np.arange(60) % 3)
    transop.fit(file, recipe="demo", out=out, overrides=TINY)
    run = Run.open(out)
    assert run.dataset.image_shape == run.model.image_shape
    assert run.model.encode(run.held_out.batch(slice(0, 2))).shape == (2, 4)


def test_a_resumed_run_announces_its_work_as_it_was_opened(on_file, monkeypatch):
    asked = []
    monkeypatch.setattr("transop.training.train", lambda *_, progress, **__: asked.append(progress))

    def announce(items, description, total=None):
        return iter(items)

    Run.open(on_file[0], progress=announce).resume()
    assert asked == [announce]
