"""``transop invariance`` on the smallest run there is, and on a classifier of one's own."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from transop.artifacts import write_atomically
from transop.config import load_settings
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators
from transop_app import cli

FACTORY = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 2))

def build_wrong():
    return "no module"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model with random weights over a folder of two classes of noise."""
    root = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (root / "images" / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 256, (16, 16), np.uint8)
            Image.fromarray(pixels).save(root / "images" / name / f"{number}.png")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
        judge = build_classifier("lenet", image_size=16, channels=1, n_classes=2)
        encoder = CoefficientEncoder(4, 3, hidden=(8,))
    numbers = {"image_size": 16, "channels": 1, "n_classes": 2}
    model = ManifoldAutoencoder(
        network,
        TransportOperators(3, 4, generator=torch.Generator().manual_seed(0)),
        coefficient_encoder=encoder,
        classifier=judge,
        classifier_recipe={"network": "lenet", "numbers": numbers},
        phases=("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder"),
        class_names=("cats", "dogs"),
    )
    model.save_pretrained(root / "run")
    changes = [
        f"data.source={str(root / 'images')!r}",
        "runtime.device=cpu",
        "coefficient_encoder.epochs=2",
        "coefficient_encoder.batch_size=8",
        "coefficient_encoder.hidden=[8]",
        "coefficient_encoder.distil=false",
    ]
    settings = load_settings("demo", changes)
    write_atomically(root / "run" / "config.toml", settings.to_toml().encode())
    (root / "ownclassifier.py").write_text(FACTORY)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 2))
    save_file(own.state_dict(), root / "mine.safetensors")
    return root / "run"


def test_a_table_on_stdout_and_pictures_beside_the_numbers(run, capfd):
    assert cli.run(["invariance", str(run)]) == 0
    shown = capfd.readouterr()
    assert "tolerates most" in shown.out
    assert "cats" in shown.out
    figures = run / "figures"
    for name in ("invariance.png", "invariance.json", "invariance.npz"):
        assert (figures / name).exists(), name


def test_all_numbers_as_json(run, capfd):
    assert cli.run(["invariance", str(run), "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["operators"] == [0, 1, 2]
    assert set(facts["classes"]) == {"cats", "dogs"}
    cats = facts["classes"]["cats"]
    assert len(cats["scales"]) == 3
    best = max(range(3), key=cats["relative_moves"].__getitem__)
    assert cats["tolerates_most"][0] == best
    assert facts == json.loads((run / "figures" / "invariance.json").read_text())


def layer(number, outputs, inputs):
    return {f"{number}.weight": torch.ones(outputs, inputs), f"{number}.bias": torch.ones(outputs)}


def test_ones_own_classifier_gets_an_encoder_of_its_own_once(run, monkeypatch, capfd):
    monkeypatch.chdir(run.parent)
    command = [
        "invariance",
        "run",
        "--classifier",
        "ownclassifier:build",
        "--weights",
        "mine.safetensors",
    ]
    assert cli.run([*command, "--json"]) == 0
    first = json.loads(capfd.readouterr().out)
    folder = run / "classifiers" / "ownclassifier-build"
    assert (folder / "figures" / "invariance.png").exists()
    own = ManifoldAutoencoder.from_pretrained(run)
    assert own.classifier_recipe["network"] == "lenet"  # the run itself is as it was
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    assert cli.run([*command, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == first
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    other = {"1.weight": torch.zeros(2, 256), "1.bias": torch.tensor([0.0, 1.0])}
    save_file(other, run.parent / "mine.safetensors")
    assert cli.run([*command, "--json"]) == 0
    # Trained again, for the new weights.
    assert (folder / "model.safetensors").stat().st_mtime_ns != changed
    wider = FACTORY.replace("nn.Linear(256, 2)", "nn.Linear(256, 9), nn.Linear(9, 2)")
    (run.parent / "ownclassifier.py").write_text(wider)
    monkeypatch.delitem(sys.modules, "ownclassifier")
    odd = run.parent / 'it\'s "mine".safetensors'
    save_file({**layer(1, 9, 256), **layer(2, 2, 9)}, odd)
    assert cli.run([*command[:-1], str(odd)]) == 0  # another network of the same name


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["nowhere"], "nowhere"),
        (["run", "--weights", "mine.safetensors"], "--classifier"),
        (["run", "--classifier", "ownclassifier:build_wrong"], "not a module"),
        (["run", "--classifier", "absent:build"], "absent"),
        (
            [
                "run",
                "--classifier",
                "ownclassifier:build",
                "--weights",
                "ownclassifier.py",
            ],
            "safetensors",
        ),
    ],
)
def test_a_mistake_is_one_line(options, part, run, monkeypatch, capfd):
    monkeypatch.chdir(run.parent)
    assert cli.run(["invariance", *options]) == 2
    err = capfd.readouterr().err
    assert err.splitlines()[-1].startswith("error: ")
    assert part in err
