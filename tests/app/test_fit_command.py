"""``transop fit`` on small folders, as a user would call it."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transop.training import plan as planning
from transop_app.cli import run

fitting = sys.modules["transop.training.fit"]  # by its path it would be the function `fit`


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """Every step seems to take a fifth of a second, so that few are planned."""
    monkeypatch.setattr(planning, "_seconds", lambda work, warm=True: 0.2)
    monkeypatch.setattr(planning._Planner, "_time_operators", lambda self, batch: 0.2)
    for phase in ("operators", "coefficient_encoder"):
        monkeypatch.setitem(planning._MOST_STEPS, phase, 50)


def write_pictures(folder, n, size=(20, 20), mode="L"):
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for number in range(n):
        y, x = np.mgrid[: size[1], : size[0]]
        wave = np.sin(x / generator.uniform(1, 4) + generator.uniform(0, 6)) + np.cos(y / 3)
        pixels = (60 * wave + 127).astype(np.uint8)
        Image.fromarray(pixels).convert(mode).save(folder / f"{number}.png")
    return folder


def test_a_folder_becomes_a_run_with_report_and_advice(tmp_path, capfd):
    folder = write_pictures(tmp_path / "waves", 90)
    out = tmp_path / "run"
    assert run(["fit", str(folder), "--minutes", "0.4", "--out", str(out)]) == 0
    said = capfd.readouterr()
    assert (out / "report.html").exists()
    assert "groups of the neighbour graph" in said.out
    for words in ("plan: about", "left", "reconstruction:", "operators:", "more time", "try next"):
        assert words in said.err
    assert said.err.count("\n  transop ") == 3
    assert "kept-identity" in (out / "report.html").read_text()


def test_a_stopped_run_goes_on_with_the_command_it_names_and_ends_with_its_report(
    tmp_path, capfd, monkeypatch
):
    folder = write_pictures(tmp_path / "my waves", 90)
    out = tmp_path / "run"
    command = ["fit", str(folder), "--minutes", "0.4", "--out", str(out)]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setitem(fitting.PHASES, "operators", stop)
        assert run(command) == 130
    assert not (out / "report.html").exists()
    said = capfd.readouterr().err.splitlines()[-1]
    again = shlex.split(said.removeprefix("stopped; continue with: transop "))
    assert again == ["fit", str(folder), "--out", str(out), "--resume"]
    assert run([*again, "--seed", "7"]) == 2
    assert "seed = 7, but the run in" in capfd.readouterr().err
    assert run(again) == 0
    said = capfd.readouterr().err
    assert "reconstruction:" in said
    assert "try next" in said
    assert (out / "report.html").exists()


def test_only_a_run_of_fit_on_the_same_images_goes_on(tmp_path, capfd):
    folder, out = write_pictures(tmp_path / "waves", 30), tmp_path / "run"
    command = ["fit", str(folder), "--minutes", "0.4", "--out", str(out)]
    assert run([*command, "--resume"]) == 2
    assert "leave --resume out" in capfd.readouterr().err
    assert run(command) == 0
    other = write_pictures(tmp_path / "others", 31)
    capfd.readouterr()
    assert run(["fit", str(other), "--out", str(out), "--resume"]) == 2
    assert "trained on other data" in capfd.readouterr().err
    config = out / "config.toml"
    config.write_text(config.read_text().replace('recipe = "fit"', 'recipe = "demo"'))
    assert run([*command, "--resume"]) == 2
    assert "is of recipe 'demo'; continue it with that recipe" in capfd.readouterr().err


def test_the_plan_is_printed_and_nothing_is_written(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_pictures(tmp_path / "waves", 90)
    assert run(["fit", str(folder), "--minutes", "2", "--plan"]) == 0
    tree = tomllib.loads(capfd.readouterr().out)
    assert tree["data"]["source"] == str(folder)
    assert tree["autoencoder"]["epochs"] > 0
    assert not (tmp_path / "runs").exists()


def test_a_run_is_called_after_the_folder_also_where_its_name_is_two_dots(tmp_path, monkeypatch):
    claimed = []
    monkeypatch.setattr("transop_app.cli.fit.claim_folder", lambda run, force: claimed.append(run))
    inner = write_pictures(tmp_path / "waves", 1) / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert run(["fit", "..", "--minutes", "1"]) == 2
    assert claimed[0].path == Path("runs/waves")


@pytest.mark.parametrize("n", [12, 30])
def test_few_images_get_a_plan_without_identity_and_a_report(tmp_path, capfd, n):
    folder = write_pictures(tmp_path / "few", n)
    assert run(["fit", str(folder), "--minutes", "0.4", "--out", str(tmp_path / "run")]) == 0
    said = capfd.readouterr().err
    assert "half the way to the nearest image" in said
    assert int(re.search(r"\((-?\d+)% of the variance", said)[1]) > -1000
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("n", "minutes", "message"),
    [(5, "1", "training needs at least 10"), (20, "0", "minutes = 0"), (0, "1", "no image")],
)
def test_what_cannot_be_done_is_one_clear_line(tmp_path, capfd, n, minutes, message):
    folder = write_pictures(tmp_path / "few", n, size=(300, 200), mode="RGB")
    code = run(["fit", str(folder), "--minutes", minutes, "--out", str(tmp_path / "run")])
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert code == 2
    assert len(errors) == 1
    assert message in errors[0]
