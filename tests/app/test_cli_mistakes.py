"""Mistakes on the command line that once started something, or ended in a wrong exit code."""

import numpy as np
import pytest
from PIL import Image

from transop import ManifoldAutoencoder, TransportOperators
from transop.config import load_settings
from transop.errors import SettingsError
from transop.networks import build_autoencoder
from transop.training.session import check_devices, count_processors
from transop_app import cli


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(load_settings("demo", ["recipe=small", "data.limit=64"]).to_toml())
    return str(file)


def refused(capfd, *arguments):
    """Run a command that must be refused with exit code 2 and one line; give the line."""
    code = cli.run(list(arguments))
    err = capfd.readouterr().err
    assert code == 2, err
    assert err.count("error: ") == 1
    assert "Traceback" not in err
    assert len(err) < 1000
    return err.replace("\n", "")


LONG = {
    "an integer of 5,000 digits": "autoencoder.width = " + "9" * 5000,
    "5,000 brackets": "autoencoder.width = " + "[" * 5000 + "]" * 5000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_recipe_that_python_cannot_read_is_a_mistake(text, tmp_path, capfd):
    (tmp_path / "r.toml").write_text(text)
    assert "r.toml" in refused(capfd, "train", str(tmp_path / "r.toml"), "--show-settings")
    refused(capfd, "train", "demo", "--show-settings", "--set", text.replace(" ", ""))


def test_a_recipe_that_is_no_regular_file_is_not_waited_for(tmp_path, capfd):
    import os

    os.mkfifo(tmp_path / "r.toml")
    assert "not a regular file" in refused(capfd, "train", str(tmp_path / "r.toml"))


@pytest.mark.parametrize("command", [["train"], ["train", "--resume"], ["demo"]])
def test_a_name_too_long_for_the_disk_is_a_mistake(command, recipe, tmp_path, capfd):
    name, *options = command
    arguments = [name, *([recipe] if name == "train" else []), *options]
    line = refused(capfd, *arguments, "--out", str(tmp_path / ("x" * 300)))
    assert "choose a shorter name" in line


def test_a_folder_below_a_file_is_a_mistake(recipe, tmp_path, capfd):
    refused(capfd, "train", recipe, "--out", f"{recipe}/run")


@pytest.mark.parametrize("command", ["train", "demo"])
def test_what_does_not_exist_cannot_be_resumed(command, recipe, tmp_path, capfd):
    first = ["train", recipe] if command == "train" else ["demo"]
    line = refused(capfd, *first, "--out", str(tmp_path / "none"), "--resume")
    assert "there is no folder" in line
    assert not (tmp_path / "none").exists()


def test_resuming_and_starting_anew_exclude_each_other(recipe, tmp_path, capfd):
    (tmp_path / "run").mkdir()
    options = ["--out", str(tmp_path / "run"), "--resume", "--force"]
    assert "give one of them" in refused(capfd, "train", recipe, *options)
    assert "give one of them" in refused(capfd, "demo", *options)


def test_more_devices_than_processors_are_refused_before_any_starts(recipe, tmp_path, capfd):
    out = str(tmp_path / "run")
    line = refused(capfd, "train", recipe, "--device", "cpu", "--devices", "1000", "--out", out)
    assert f"this machine has {count_processors()} processors" in line
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_more_devices_than_a_batch_has_items_are_refused(monkeypatch):
    monkeypatch.setattr("transop.training.session.count_processors", lambda: 64)
    settings = load_settings("demo", ["runtime.devices=24", "operators.batch_size=8"])
    with pytest.raises(SettingsError, match=r"devices = 24.*operators\.batch_size = 8.*at most 8"):
        check_devices(settings)
    check_devices(load_settings("demo", ["runtime.devices=24"]))


@pytest.fixture
def run(tmp_path):
    """A folder that commands take for a trained run."""
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8)
    np.savez(tmp_path / "data.npz", images=images)
    model = ManifoldAutoencoder(
        build_autoencoder("conv", image_size=16, channels=1, latent_dimension=3, width=2),
        TransportOperators(2, 3),
        phases=("autoencoder", "operators"),
    )
    folder = tmp_path / "run"
    model.save_pretrained(folder)
    settings = load_settings("demo", [f"data.source={tmp_path / 'data.npz'}"])
    (folder / "config.toml").write_text(settings.to_toml())
    return folder


@pytest.fixture
def pictures(tmp_path):
    (tmp_path / "pictures").mkdir()
    Image.new("L", (16, 16)).save(tmp_path / "pictures" / "a.png")
    return tmp_path / "pictures"


def test_a_place_deeper_than_folders_can_be_is_a_mistake(
    run, recipe, pictures, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    deep = "a/" * 1200 + "b"
    image = str(pictures / "a.png")
    for command in (
        ["report", str(run), "--out", deep],
        ["train", recipe, "--out", deep],
        ["augment", str(run), str(pictures), deep],
        ["path", str(run), image, image, "--out", f"{deep}.png"],
    ):
        assert "folders deep; choose a place at most 200 deep" in refused(capfd, *command)
    assert not (tmp_path / "a").exists()


def test_links_that_lead_in_a_circle_are_mistakes(run, pictures, tmp_path, capfd):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    line = refused(capfd, "augment", str(run), str(pictures), str(loop))
    assert "leads nowhere" in line
    assert "leads nowhere" in refused(capfd, "data", "digits", "--path", str(loop), "--offline")
    judge = ["--classifier", "torch.nn:Identity", "--weights", str(loop)]
    assert "Too many levels of symbolic links" in refused(capfd, "invariance", str(run), *judge)


def test_a_folder_is_no_place_for_a_report(run, capfd, monkeypatch):
    monkeypatch.chdir(run)
    assert "it is a folder" in refused(capfd, "report", ".", "--out", "..")


def test_a_seed_that_torch_cannot_hold_is_a_mistake(run, pictures, tmp_path, capfd):
    for seed in ("9" * 20, "-1", "9" * 400):
        out = str(tmp_path / "out")
        line = refused(capfd, "augment", str(run), str(pictures), out, "--seed", seed)
        assert "--seed" in line


def test_times_beyond_single_precision_are_a_mistake(run, pictures, capfd):
    image = str(pictures / "a.png")
    for times in ("1e308,-1e308", "-1e308:1e308:3", "nan"):
        assert "--t" in refused(capfd, "path", str(run), image, image, "--t", times)
