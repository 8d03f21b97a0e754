"""``transop augment`` on a model with random weights."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import TransportOperators
from transop_app import cli


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    shape = {"image_size": 28, "channels": 1, "latent_dimension": 4, "width": 2}
    operators = TransportOperators(3, 4, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_autoencoder("mnist", **shape)
    with torch.no_grad():  # untrained, it would draw everything in the same grey
        network.encoder[-1].weight.mul_(20)
        network.decoder[-2].weight.mul_(30)
    model = ManifoldAutoencoder(
        network, operators, prior_scale=0.5, phases=("autoencoder", "operators")
    )
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def pictures(tmp_path):
    """Two class folders with files of every common mode, one broken file and one text."""
    rng = np.random.default_rng(0)
    root = tmp_path / "in"
    (root / "cats").mkdir(parents=True)
    (root / "dogs" / "small").mkdir(parents=True)
    grey = rng.integers(0, 256, (28, 28), np.uint8)
    colour = rng.integers(0, 256, (40, 60, 3), np.uint8)
    Image.fromarray(grey).save(root / "cats" / "tom.png")
    Image.fromarray(colour).save(root / "cats" / "felix.jpg")
    Image.fromarray(colour).convert("RGBA").save(root / "dogs" / "rex.png")
    Image.fromarray(colour).quantize(16).save(root / "dogs" / "small" / "bit.gif")
    for ending in ("png", "tif"):
        Image.fromarray(grey.astype(np.uint16) * 257).save(root / "dogs" / f"deep.{ending}")
    (root / "dogs" / "broken.png").write_bytes(b"no picture")
    (root / "readme.txt").write_text("not an image")
    return root


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def test_folders_names_and_modes_are_kept(run, pictures, tmp_path, capfd):
    out = tmp_path / "out"
    assert cli.run(["augment", run, str(pictures), str(out), "-n", "2"]) == 0
    shown = capfd.readouterr()
    assert shown.out == f"{out}\n"
    assert "broken.png" in shown.err
    assert "12 copies of 6 images, 28 x 28 pixels" in shown.err
    stems = ["cats/felix-{}.jpg", "cats/tom-{}.png", "dogs/deep-{}.png", "dogs/rex-{}.png"]
    stems += ["dogs/deep.tif-{}.png", "dogs/small/bit-{}.gif"]
    assert files(out) == sorted(stem.format(n) for stem in stems for n in (1, 2))
    modes = {"cats/felix-1.jpg": "RGB", "cats/tom-1.png": "L", "dogs/rex-2.png": "RGBA"}
    modes |= {"dogs/small/bit-1.gif": "P", "dogs/deep-1.png": "I;16"}
    for name, mode in modes.items():
        with Image.open(out / name) as picture:
            assert (picture.mode, picture.size) == (mode, (28, 28)), name


def test_the_seed_decides(run, pictures, tmp_path):
    def pixels(name, *options):
        assert cli.run(["augment", run, str(pictures), str(tmp_path / name), "-q", *options]) == 0
        return (tmp_path / name / "cats" / "tom-1.png").read_bytes()

    first = pixels("a")
    assert pixels("b") == first
    assert pixels("c", "--seed", "1") != first


def test_an_unmoved_copy_is_the_original(run, pictures, tmp_path):
    options = ["--p", "0", "-q"]
    assert cli.run(["augment", run, str(pictures), str(tmp_path / "out"), *options]) == 0
    for name in ("cats/tom", "dogs/deep"):
        with (
            Image.open(pictures / f"{name}.png") as before,
            Image.open(tmp_path / "out" / f"{name}-1.png") as after,
        ):
            np.testing.assert_array_equal(np.asarray(before), np.asarray(after))


def test_existing_files_are_safe_without_force(run, pictures, tmp_path, capfd):
    out = tmp_path / "out"
    command = ["augment", run, str(pictures), str(out), "-q"]
    assert cli.run(command) == 0
    kept = (out / "cats" / "tom-1.png").stat().st_mtime_ns
    assert cli.run(command) == 2
    assert "--force" in capfd.readouterr().err
    assert (out / "cats" / "tom-1.png").stat().st_mtime_ns == kept
    assert cli.run([*command, "--force"]) == 0


def test_a_contact_sheet_and_counts_as_json(run, pictures, tmp_path, capfd):
    sheet = tmp_path / "sheet.png"
    command = ["augment", run, str(pictures), str(tmp_path / "out"), "-n", "3", "--json"]
    assert cli.run([*command, "--contact-sheet", str(sheet)]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert (facts["images"], facts["written"]) == (6, 18)
    assert list(facts["unreadable"]) == ["dogs/broken.png"]
    with Image.open(sheet) as picture:
        assert picture.height > picture.width  # six rows of four


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"source": "nowhere"}, "'nowhere' is not a folder"),
        ({"target": "in/out"}, "lies inside"),
        ({"target": "in/readme.txt"}, "is a file"),
        ({"source": "empty"}, "no image files"),
        ({"source": "bad"}, "no file in 'bad' is readable"),
        ({"options": ["-n", "0"]}, "n = 0"),
        ({"options": ["--p", "2"]}, "p = 2"),
        ({"options": ["--scales", "encoder"]}, "no coefficient encoder"),
        ({"options": ["--guard", "0.5"]}, "no classifier"),
        ({"options": ["--contact-sheet", "sheet.bmp"]}, ".svg"),
    ],
)
def test_a_mistake_is_one_line(change, part, run, pictures, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no picture")
    source, target = change.get("source", "in"), change.get("target", "out")
    assert cli.run(["augment", run, source, target, *change.get("options", [])]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert part in err
