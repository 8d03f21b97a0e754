"""``transop label`` on folders of bars, with a small model and with one of its own."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

from transop.semi_supervised import Consistency, FewLabelClassifier, train_consistently
from transop.training import plan as planning
from transop_app.cli import run

QUICK = Consistency(n_steps=60, n_labelled=8, n_unlabelled=32, learning_rate=3e-3)


@pytest.fixture(autouse=True)
def short_training(monkeypatch):
    """Train classifiers for 60 steps, and plan models for a slow machine."""

    def train(network, labelled, unlabelled, settings, **options):
        return train_consistently(network, labelled, unlabelled, QUICK, **options)

    monkeypatch.setattr("transop.semi_supervised.learner.train_consistently", train)
    monkeypatch.setattr(planning, "_seconds", lambda work, warm=True: 5.0)
    monkeypatch.setattr(planning._Planner, "_time_operators", lambda self, batch: 5.0)


def draw_bar(number):
    """Draw a bright bar at some place, lying (even numbers) or standing (odd ones)."""
    place = np.arange(16) - np.random.default_rng(number).integers(3, 13)
    bar = np.broadcast_to(np.exp(-(place**2) / 3)[:, None], (16, 16))
    return (255 * (bar.T if number % 2 else bar)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Six labelled images of each class, and sixty without label, one of them unreadable."""
    place = tmp_path / "bars"
    for number in range(72):
        name = ("lying", "standing")[number % 2] if number < 12 else "unlabelled"
        (place / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw_bar(number)).save(place / name / f"{number}.png")
    (place / "unlabelled" / "20.png").write_bytes(b"no image")
    return place


def read_labels(out):
    with (out / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def refused(capfd, *arguments):
    """Run a command that must fail as a user's mistake; give its one line."""
    assert run(["label", *map(str, arguments)]) == 2
    said = capfd.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert said.out == ""
    return lines[0]


def test_a_folder_gets_labels_and_a_classifier(folder, full_run, tmp_path, capfd):
    out = tmp_path / "out"
    options = ["--model", str(full_run), "--out", str(out), "--folds", "2", "--json"]
    assert run(["label", str(folder), *options]) == 0
    said = capfd.readouterr()
    facts = json.loads(said.out)
    assert facts["images"] == {"labelled": 12, "unlabelled": 59}
    assert "next: " in said.err

    rows = read_labels(out)
    wanted = sorted(f"unlabelled/{number}.png" for number in range(12, 72) if number != 20)
    assert sorted(row["file"] for row in rows) == wanted
    right = [(int(row["file"][11:-4]) % 2 == 1) == (row["class"] == "standing") for row in rows]
    assert np.mean(right) > 0.8
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)
    for name, counts in facts["classes"].items():
        assert counts == {"labelled": 6, "unlabelled": sum(row["class"] == name for row in rows)}

    loaded = FewLabelClassifier.from_pretrained(out / "classifier")
    assert loaded.class_names == ("lying", "standing")
    assert vars(loaded.expected_accuracy) == facts["expected_accuracy"]["classifier"]
    images = torch.from_numpy(np.stack([draw_bar(number) for number in range(100, 140)]))
    names = loaded.predict(images[:, None] / 255)
    assert np.mean([(k % 2 == 1) == (n == "standing") for k, n in enumerate(names)]) > 0.7
    assert not (out / "model").exists()


def test_without_a_model_one_is_trained_and_kept(folder, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["label", str(folder), "--minutes", "0.2", "--folds", "0"]) == 0
    said = capfd.readouterr()
    assert "0.2 minutes at most" in said.err
    for words in ("lying", "standing", "expected accuracy not measured"):
        assert words in said.out
    record = json.loads((tmp_path / "labels" / "bars" / "model" / "data.json").read_text())
    assert record["class_names"] is None
    before = read_labels(tmp_path / "labels" / "bars")

    assert "label anew with --force" in refused(capfd, folder, "--minutes", "0.2")
    model = tmp_path / "labels" / "bars" / "model"
    assert "would move the model" in refused(capfd, folder, "--model", model, "--force")
    kept = tmp_path / "kept"
    model.rename(kept)
    again = ["label", str(folder), "--model", str(kept), "--folds", "0", "--force", "--quiet"]
    assert run(again) == 0
    assert capfd.readouterr().err == ""
    assert read_labels(tmp_path / "labels" / "bars.earlier-1") == before
    after = read_labels(tmp_path / "labels" / "bars")
    assert [(row["file"], row["class"]) for row in after] == [
        (row["file"], row["class"]) for row in before
    ]


def test_few_labels_mean_fewer_folds_in_one_line(folder, full_run, tmp_path, capfd):
    for number in (0, 2, 4, 6):
        (folder / "lying" / f"{number}.png").unlink()
    options = ["--model", str(full_run), "--out", str(tmp_path / "out")]
    assert run(["label", str(folder), *options]) == 0
    said = capfd.readouterr()
    assert "'lying' has 2 labelled image(s): 2 folds instead of 5" in said.err
    assert said.out.count("±") == 2


def test_mistakes_are_one_clear_line(folder, full_run, tmp_path, capfd):
    out = tmp_path / "out"
    model = ["--model", full_run, "--out", out]
    assert "no subfolder 'unlabelled'" in refused(capfd, folder / "lying", *model)
    assert "neither a known name nor an existing" in refused(capfd, folder / "none", *model)
    assert "leave out --model" in refused(capfd, folder, *model, "--minutes", 3)
    assert "minutes = 0" in refused(capfd, folder, "--minutes", 0, "--out", out)
    assert "n_folds = 1" in refused(capfd, folder, *model, "--folds", 1)
    assert "not of 'transop label'" in refused(capfd, folder, "--out", folder, "--force")
    assert not out.exists()


def test_a_stopped_command_says_how_to_go_on(folder, tmp_path, capfd, monkeypatch):
    out = tmp_path / "out"

    def stop(*arguments, **options):
        (options["out"]).mkdir(parents=True)
        (options["out"] / "model.safetensors").write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr("transop.semi_supervised.learn_from_few_labels", stop)
    assert run(["label", str(folder), "--out", str(out)]) == 130
    said = capfd.readouterr().err
    assert f"go on with: transop label {folder} --model {out}/model --out {out}" in said
    assert not (out / "labels.csv").exists()
