"""``transop fit`` on small folders, as a user would call it."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transop.training import plan as planning
from transop_app.cli import run


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
