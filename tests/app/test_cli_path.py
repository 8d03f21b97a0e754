"""``transop path`` on a model with random weights."""

import contextlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop_app import cli
from transop_app.cli.path import parse_times


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Save a small model that claims to have learned operators."""
    folder = tmp_path_factory.mktemp("run")
    shape = {"image_size": 28, "channels": 1, "latent_dimension": 4, "width": 2}
    operators = TransportOperators(3, 4, generator=torch.Generator().manual_seed(0))
    model = ManifoldAutoencoder(
        build_autoencoder("mnist", **shape), operators, phases=("autoencoder", "operators")
    )
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def images(tmp_path):
    """Write a fitting image and one that is too large, coloured and not square."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (28, 28), np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).save(tmp_path / "b.jpg")
    return str(tmp_path / "a.png"), str(tmp_path / "b.jpg")


def test_a_strip_is_written_and_named_on_stdout(run, images, tmp_path, capfd):
    out = tmp_path / "strip.png"
    assert cli.run(["path", str(run), *images, "--out", str(out)]) == 0
    shown = capfd.readouterr()
    assert shown.out == f"{out}\n"
    assert "b.jpg' was cropped to its central square, resized to 28 x 28, turned to grey" in (
        shown.err
    )
    assert "a.png" not in shown.err
    with Image.open(out) as strip:
        assert strip.width > 4 * strip.height


def test_a_gif_is_enlarged_by_a_whole_factor(run, images, tmp_path):
    out = tmp_path / "walk.gif"
    assert cli.run(["path", str(run), *images, "--t", "0:2:7", "--out", str(out), "-q"]) == 0
    with Image.open(out) as walk:
        assert (walk.format, walk.size) == ("GIF", (168, 168))


def test_json_gives_coefficients_and_residual(run, images, tmp_path, capfd):
    options = ["--json", "--t", "0,1", "--out", str(tmp_path / "strip.svg")]
    assert cli.run(["path", str(run), *images, *options]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert len(facts["coefficients"]) == 3
    assert facts["t"] == [0, 1]
    assert facts["relative_residual"] >= 0


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"run": "nowhere"}, "nowhere"),
        ({"start": "missing.png"}, "no image file 'missing.png'"),
        ({"start": "."}, "'.'"),
        ({"start": __file__}, "not a readable image"),
        ({"options": ["--t", "soon"]}, "--t 'soon'"),
        ({"options": ["--out", "strip.bmp"]}, ".gif"),
    ],
)
def test_a_mistake_is_one_line(change, part, run, images, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    start = change.get("start", images[0])
    chosen = [change.get("run", str(run)), start, images[1], *change.get("options", [])]
    assert cli.run(["path", *chosen]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert part in err


def test_a_run_without_operators_is_refused(run, images, tmp_path, capfd):
    model = ManifoldAutoencoder.from_pretrained(run)
    model.phases = ("autoencoder",)
    model.save_pretrained(tmp_path / "early")
    assert cli.run(["path", str(tmp_path / "early"), *images]) == 2
    assert "no operators yet" in capfd.readouterr().err


def test_times_are_read_as_a_list_or_a_range():
    assert parse_times("0, 0.5,1") == [0, 0.5, 1]
    assert parse_times("-1:1:5") == [-1, -0.5, 0, 0.5, 1]
    assert parse_times("3") == [3]


@settings(max_examples=40, deadline=None)
@given(st.text("0123456789.,:-einfa ", max_size=12))
def test_any_text_for_times_gives_finite_numbers_or_a_user_error(text):
    with contextlib.suppress(UserError):
        times = parse_times(text)
        assert times
        assert np.isfinite(times).all()
