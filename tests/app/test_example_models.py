"""The models that are shipped with the package, and the script that makes them."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from transop import ManifoldAutoencoder, Run, TransportAugment
from transop.artifacts import RunFolder
from transop.data import DataRecord, load_dataset
from transop.errors import UserError
from transop.evaluation import measure_invariance
from transop_app import cli
from transop_app.examples import example_folder, example_names
from transop_app.explorer import ExploredRun
from transop_app.explorer.html import png
from transop_app.explorer.latent_map import draw_map

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "transop_app" / "examples"
SCRIPT = ROOT / "benchmarks" / "ship_example.py"
NAMES = ("fashion-mnist", "mnist")
LARGEST = 2_500_000  # bytes of all examples together
FILES = {
    "README.md",
    "config.json",
    "config.toml",
    "data.json",
    "environment.json",
    "held-out.npz",
    "metrics.jsonl",
    "model.safetensors",
    "phases.json",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Give every test an empty cache of its own."""
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_shipped_files_are_complete_and_small():
    assert tuple(example_names()) == NAMES
    found = {name: {file.name for file in (SHIPPED / name).iterdir()} for name in NAMES}
    assert found == dict.fromkeys(NAMES, FILES)
    assert sum(file.stat().st_size for file in SHIPPED.glob("*/*")) < LARGEST


@pytest.mark.parametrize("name", NAMES)
def test_no_shipped_text_names_a_folder_of_the_machine_it_was_made_on(name):
    for file in (SHIPPED / name).iterdir():
        if file.suffix in (".md", ".json", ".toml", ".jsonl"):
            assert not {"/work", "/root", "/home", "/tmp"} & set(file.read_text().split('"'))
            assert not re.search(r"/(home|root|tmp|Users)/", file.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_how_the_model_was_trained(name):
    card = (SHIPPED / name / "README.md").read_text()
    environment = json.loads((SHIPPED / name / "environment.json").read_text())
    recipe = tomllib.loads((SHIPPED / name / "config.toml").read_text())["recipe"]
    assert f"transop train {recipe} --seed {environment['seed']}" in card
    assert environment["commit"] in card
    assert "## Licence" in card


@pytest.mark.parametrize("name", NAMES)
def test_an_example_opens_without_its_data_set_and_reconstructs(name):
    run = ExploredRun.open(example_folder(name))
    assert run.missing == ""
    assert run.images is not None
    images = run.images.batch(slice(None))
    assert images.shape == (600, 1, 28, 28)
    assert np.bincount(run.images.labels).tolist() == [60] * 10
    error = (run.model.reconstruct(images) - images).square().mean()
    assert error < 0.013  # of black images it would be above 0.1
    named = run.model.classify(images).argmax(-1)
    right = (named.numpy() == run.images.labels).mean()
    assert right > (0.98 if name == "mnist" else 0.8)


@pytest.mark.parametrize("name", NAMES)
def test_every_view_of_the_explorer_has_what_it_needs(name):
    run = ExploredRun.open(example_folder(name))
    drawn = draw_map(run)
    assert drawn.scales is not None
    assert drawn.labels is not None
    assert len(drawn.points) == 600
    start, end = (run.example(3, number)[None] for number in (1, 2))
    found = run.model.infer(start, end)
    assert found.converged.all()
    assert 0 < float(found.residual[0]) < 0.5
    moved = TransportAugment(run.model, generator=torch.Generator().manual_seed(0))(start)
    assert (moved - start).abs().max() > 0.1
    measured = measure_invariance(run.model, run.dataset, n_images=200)
    assert measured.scales.shape == (10, len(run.living_operators))
    assert run.findings is not None
    assert len(run.loss_curves) >= 4


def test_an_example_is_copied_once_and_can_be_written_to(cache):
    folder = example_folder("mnist")
    assert folder.name == "mnist"
    assert cache in folder.parents
    (folder / "figures").mkdir()
    assert example_folder("mnist") == folder
    assert (folder / "figures").is_dir()
    assert [entry.name for entry in (cache / "examples").iterdir()] == [folder.parent.name]


def test_a_changed_example_gets_a_folder_of_its_own(tmp_path, monkeypatch):
    shutil.copytree(SHIPPED, tmp_path / "shipped")
    monkeypatch.setattr("transop_app.examples._SHIPPED", tmp_path / "shipped")
    first = example_folder("mnist")
    (tmp_path / "shipped" / "mnist" / "README.md").write_text("a newer one")
    assert example_folder("mnist") != first


def test_an_unknown_example_is_a_user_mistake(capfd):
    with pytest.raises(UserError, match="no example 'cifar'; choose from fashion-mnist or mnist"):
        example_folder("cifar")
    assert cli.run(["invariance", "example:cifar"]) == 2
    assert "no example 'cifar'" in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["runs/x", "--example", "mnist"]], ids=["none", "both"])
def test_explore_wants_a_run_or_an_example(arguments, capfd):
    assert cli.run(["explore", *arguments, "--no-browser"]) == 2
    assert "either a run folder or --example NAME" in capfd.readouterr().err


def test_other_commands_take_an_example_in_place_of_a_run(tmp_path, capfd):
    run = Run.open(example_folder("mnist"))
    for number, name in enumerate(("a.png", "b.png")):
        (tmp_path / name).write_bytes(png(run.held_out.batch([number])[0].numpy()))
    images = [str(tmp_path / name) for name in ("a.png", "b.png")]
    strip = tmp_path / "path.png"
    assert cli.run(["path", "example:mnist", *images, "--out", str(strip)]) == 0
    assert strip.exists()
    assert cli.run(["report", "example:mnist", "--out", str(tmp_path / "report.html")]) == 0
    assert cli.run(["invariance", "example:mnist", "--images", "100", "--json"]) == 0
    assert (run.path / "figures" / "invariance.png").exists()
    assert "trained on the labels" in capfd.readouterr().out


def test_training_an_example_further_asks_for_the_real_data(monkeypatch):
    run = Run.open(example_folder("mnist"), offline=True)
    asked = []
    monkeypatch.setattr("transop.training.train", lambda *_, **given: asked.append(given))
    run.resume()
    assert asked[0]["dataset"] is None  # and not the 600 images


def test_a_run_that_carries_images_still_takes_the_data_it_is_given(full_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(full_run, folder)
    images = np.zeros((20, 1, 16, 16), np.uint8)
    images[:, 0, 3] = np.arange(20)[:, None]
    np.savez_compressed(folder / "held-out.npz", images=images)
    assert len(Run.open(folder).dataset) == 20
    source = tomllib.loads((folder / "config.toml").read_text())["data"]["source"]
    assert len(Run.open(folder, data=source).dataset) == 300


@pytest.fixture
def shippable(full_run, tmp_path):
    """Make a run that claims to be one of MNIST."""
    folder = tmp_path / "run"
    shutil.copytree(full_run, folder)
    record = DataRecord.of(Run.open(folder).dataset, "mnist")
    record.write(RunFolder(folder))
    environment = {"seed": 4, "commit": "abc", "cores": 2, "torch_threads": 1}
    (folder / "environment.json").write_text(json.dumps(environment))
    source = tomllib.loads((folder / "config.toml").read_text())["data"]["source"]
    return Run.open(folder, data=load_dataset(source))


def test_the_script_writes_a_run_that_opens_and_keeps_its_outputs(shippable, tmp_path):
    script = runpy.run_path(str(SCRIPT))
    measured = script["write_example"](shippable, "mnist", tmp_path / "example")
    assert {file.name for file in (tmp_path / "example").iterdir()} == FILES
    assert 0 < measured["pixel"] < script["TOLERANCE"]
    run = ExploredRun.open(tmp_path / "example")
    model = ManifoldAutoencoder.from_pretrained(shippable.path)
    images = run.held_out.batch(slice(None))
    torch.testing.assert_close(
        run.model.reconstruct(images), model.reconstruct(images), atol=0.01, rtol=0
    )
    # Stored in half precision, computed with in single precision.
    assert run.model.operators.weight.dtype == torch.float32
    assert "trained" in (tmp_path / "example" / "README.md").read_text()


def test_the_script_refuses_a_model_that_half_precision_spoils(shippable, tmp_path):
    script = runpy.run_path(str(SCRIPT))
    script["write_example"].__globals__["TOLERANCE"] = 0.0
    with pytest.raises(SystemExit, match="half precision changes a pixel"):
        script["write_example"](shippable, "mnist", tmp_path / "example")


def test_curves_are_thinned_and_everything_else_is_kept():
    thin = runpy.run_path(str(SCRIPT))["thin"]
    steps = [{"phase": "operators", "step": step, "loss": 1.0} for step in range(1000)]
    others = [{"phase": "operators", "finding": "x", "loss": 2.0}, {"phase": "operators"}]
    kept = thin([*steps, *others])
    assert kept[0]["step"] == 0
    assert kept[-3]["step"] == 999
    assert len(kept) == 60 + 2
    assert kept[-2:] == others


@pytest.mark.browser
def test_the_explorer_shows_an_example_in_the_browser(visit, cache):
    command = [sys.executable, "-m", "transop", "explore", "--example", "mnist", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        page = visit(process.stdout.readline().strip())
        assert page.locator("h1").inner_text() == "mnist"
        page.get_by_role("tab", name="Map", exact=True).first.click()
        page.wait_for_selector("#map circle[data-point='599']", state="attached")
        assert page.failures == []
        assert page.asked == []
    finally:
        process.terminate()
        process.wait(60)
