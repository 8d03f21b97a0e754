"""The whole CelebA recipe from the command line, on a small folder in CelebA's layout."""

import json
import shutil
import tomllib
import zipfile

import pytest

from transop.data import load_dataset
from transop_app.cli import run
from transop_paper.faces import write_faces

# Every phase of the recipe, for a step or two, on networks a tenth as wide.
SMALL = {
    "autoencoder.epochs": 0.5,
    "autoencoder.width": 2,
    "autoencoder.batch_size": 16,
    "autoencoder.latent_dimension": 8,
    "operators.epochs": 0.5,
    "operators.n_operators": 3,
    "operators.batch_size": 16,
    "fine_tuning.epochs": 0.5,
    "fine_tuning.batch_size": 16,
    "classifier.epochs": 0.5,
    "classifier.batch_size": 16,
    "classifier.trunk": "small",
    "pairs.strategy": "pixel",
    "data.image_size": 32,
}


@pytest.fixture(scope="module")
def celeba(tmp_path_factory):
    """Faces of 36 x 44 pixels, which is CelebA's 178 x 218 at a fifth of its size."""
    return write_faces(tmp_path_factory.mktemp("faces") / "celeba", 60, size=(44, 36))


def train(source, out, *changes, recipe="celeba"):
    settings = [f"data.source={source}", *(f"{k}={v}" for k, v in SMALL.items()), *changes]
    options = [part for setting in settings for part in ("--set", setting)]
    return run(["train", recipe, "--out", str(out), "--json", *options])


@pytest.mark.parametrize(
    ("recipe", "more"), [("celeba", []), ("celeba-cpu", ["coefficient_encoder"])]
)
def test_the_recipe_trains_every_phase_on_a_folder_in_celebas_layout(
    celeba, tmp_path, capsys, monkeypatch, recipe, more
):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))
    few = ("coefficient_encoder.epochs=0.5", "coefficient_encoder.distil_samples=1000")
    changes = few if more else ()
    assert train(celeba, tmp_path / "run", *changes, recipe=recipe) == 0
    streams = capsys.readouterr()
    assert "img_align_celeba" not in streams.err  # it is no class of that name
    assert "neither labels nor attributes" not in streams.err
    phases = json.loads((tmp_path / "run" / "phases.json").read_text())
    assert list(phases) == ["autoencoder", "operators", "fine_tuning", "classifier", *more]
    settings = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert settings["data"]["source"] == str(celeba)


@pytest.mark.parametrize("split", ["paper", "official", "random"])
def test_crop_and_split_are_settings(celeba, tmp_path, capsys, monkeypatch, split):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))
    only = ["operators.epochs=0", "fine_tuning.epochs=0", "classifier.epochs=0"]
    changes = [f"data.split={split}", "data.crop=celeba", *only]
    assert train(celeba, tmp_path / split, *changes) == 0
    assert train(celeba, tmp_path / "wrong", "data.crop=99", *only) == 2
    assert "crop=99 does not fit into images of 36 x 44" in capsys.readouterr().err


def test_an_option_of_celeba_on_other_data_is_one_line(tmp_path, capsys):
    assert run(["train", "demo", "--out", str(tmp_path), "--set", "data.split=official"]) == 2
    assert "split='official' does not exist for data set 'digits'" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["folder", "zip inside", "zip itself", "publisher's folders"])
def test_the_layout_is_recognised_wherever_a_source_is_given(celeba, tmp_path, layout):
    place = source = shutil.copytree(celeba, tmp_path / "mine")
    if layout != "folder":
        source = place / "img_align_celeba.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for path in sorted((place / "img_align_celeba").iterdir()):
                archive.write(path, f"img_align_celeba/{path.name}")
        shutil.rmtree(place / "img_align_celeba")
    if layout == "publisher's folders":
        for name, inside in (
            ("list_attr_celeba.txt", "Anno"),
            ("list_eval_partition.txt", "Eval"),
            ("img_align_celeba.zip", "Img"),
        ):
            (place / inside).mkdir()
            (place / name).rename(place / inside / name)
    if layout != "zip itself":
        source = place
    dataset = load_dataset(source, cache_dir=tmp_path / "cache")
    assert dataset.meta.name == "celeba"
    assert dataset.attributes.shape == (60, 40)
    assert [len(rows) for rows in dataset.splits.values()] == [48, 6, 6]
    assert dataset.image_shape == (3, 64, 64)
