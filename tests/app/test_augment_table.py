"""``transop paper table1`` at its smallest."""

import csv
import json

import numpy as np
import pytest
import torch

from transop.artifacts import write_atomically
from transop.config import load_settings
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators
from transop_app import cli
from transop_paper.scarce.rows import known_rows


def make_run(root, *, stored_size=16, model_size=16):
    """Save a model with random weights over stored noise in two classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (200, 1, stored_size, stored_size), np.uint8)
    np.savez(root / "noise.npz", images=images, labels=np.arange(200) % 2)
    numbers = {"image_size": model_size, "channels": 1, "n_classes": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_autoencoder(
            "conv", image_size=model_size, channels=1, latent_dimension=4, width=4
        )
        classifier = build_classifier("lenet", **numbers)
        encoder = CoefficientEncoder(4, 3, hidden=(8,))
    model = ManifoldAutoencoder(
        network,
        TransportOperators(3, 4, generator=torch.Generator().manual_seed(0)),
        coefficient_encoder=encoder,
        classifier=classifier,
        classifier_recipe={"network": "lenet", "numbers": numbers},
        phases=("autoencoder", "operators", "classifier", "coefficient_encoder"),
    )
    model.save_pretrained(root / "run")
    changes = [
        f"data.source={str(root / 'noise.npz')!r}",
        "runtime.device=cpu",
        "coefficient_encoder.epochs=1",
        "coefficient_encoder.hidden=[8]",
        "coefficient_encoder.distil=false",
    ]
    settings = load_settings("demo", changes)
    write_atomically(root / "run" / "config.toml", settings.to_toml().encode())
    return root / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("work"))


TINY = ["--scale", "quick", "--set", "n_steps=5", "--set", "pool_size=40"]
TINY += ["--set", "n_unlabelled_steps=3", "--set", "unlabelled_batch_size=20"]


def test_every_row_runs_and_leaves_table_and_picture(run, monkeypatch, capfd):
    monkeypatch.setattr("transop_paper.scarce.few_label_identity._OPINION_STEPS", 100)
    command = ["paper", "table1", "--run", str(run), "--seeds", "1", *TINY]
    assert cli.run(command) == 0
    shown = capfd.readouterr()
    assert "transport-100-guarded-elastic" in shown.out
    folder = run / "table1"
    with (folder / "table1.csv").open() as file:
        table = list(csv.DictReader(file))
    rows = known_rows("mnist")
    assert [line["row"] for line in table] == list(rows)
    assert {line["labels_used"] for line in table} >= {"the 100 labels only"}
    assert (folder / "table1.png").exists()
    with (folder / "differences.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows) - 1
    assert "entry minus" in shown.out
    assert len(list((folder / "results").glob("*.json"))) == len(rows)


@pytest.mark.parametrize(("stored_size", "model_size"), [(12, 16), (200, 64)])
def test_images_are_resized_as_the_run_resized_them(stored_size, model_size, tmp_path, capfd):
    run = make_run(tmp_path, stored_size=stored_size, model_size=model_size)
    command = ["paper", "table1", "--run", str(run), "--seeds", "1", *TINY, "--json"]
    assert cli.run([*command, "--rows", "none,transport-encoder"]) == 0
    assert [row["n_seeds"] for row in json.loads(capfd.readouterr().out)] == [1, 1]


def test_rows_run_alone_and_more_seeds_go_on_where_it_stopped(run, tmp_path, capfd):
    command = ["paper", "table1", "--run", str(run), "--out", str(tmp_path), *TINY, "--json"]
    rows = ["--rows", "none,transport-guarded@threshold=0.1+n_steps=2"]
    assert cli.run([*command, *rows, "--seeds", "1"]) == 0
    first = json.loads(capfd.readouterr().out)
    assert [row["n_seeds"] for row in first] == [1, 1]
    stamps = {file: file.stat().st_mtime_ns for file in (tmp_path / "results").glob("*.json")}
    assert cli.run([*command, *rows, "--seeds", "2"]) == 0
    second = json.loads(capfd.readouterr().out)
    assert [row["accuracies"][0] for row in second] == [row["mean"] for row in first]
    assert all(file.stat().st_mtime_ns == stamp for file, stamp in stamps.items())


@pytest.mark.slow
def test_seeds_in_several_processes_give_the_same(run, tmp_path, capfd):
    def table(name, processes):
        options = ["--rows", "none,transport-prior", "--seeds", "2", *TINY, "--json"]
        out = ["--out", str(tmp_path / name), "--processes", processes]
        assert cli.run(["paper", "table1", "--run", str(run), *options, *out]) == 0
        return [row["accuracies"] for row in json.loads(capfd.readouterr().out)]

    assert table("one", "1") == table("two", "2")


def test_rows_are_listed(capfd):
    assert cli.run(["paper", "table1", "--rows", "list", "--json"]) == 0
    assert "transport-guarded" in json.loads(capfd.readouterr().out)
    assert cli.run(["paper"]) == 0
    assert "table1" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--rows", "magic"], "'magic'"),
        (["--set", "n_steps=many"], "'many'"),
        (["--set", "pace=1"], "pace=1"),
        (["--set", "n_steps=0"], "n_steps = 0"),
        (["--scale", "huge"], "huge"),
        (["--run", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_is_one_line(options, part, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["paper", "table1", *options]) == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert part in err
