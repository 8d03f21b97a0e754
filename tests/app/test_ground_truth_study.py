"""The study with known angles: its splits, its measures on exact circles, and a small run."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ("sets", "models", "measures", "relight", "pictures", "starts")


@pytest.fixture
def parts(monkeypatch):
    """Give the script and its modules, which are not installed."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = importlib.import_module("ground_truth_study")
    yield script, *(importlib.import_module(f"ground_truth.{name}") for name in NAMES)
    for name in ("ground_truth_study", "ground_truth", *(f"ground_truth.{n}" for n in NAMES)):
        sys.modules.pop(name, None)


@pytest.fixture
def turntable(parts, tmp_path):
    """Draw four bars that turn round their end, 3 degrees a frame."""
    images, angles, objects = parts[1].draw_turntable(4, 120, 16)
    path = tmp_path / "turntable.npz"
    np.savez(path, images=images, labels=objects, angle_deg=angles)
    return path


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_frames_have_no_near_twins_in_training(parts, turntable, seed):
    known = parts[1].read_turntable(turntable, seed)
    assert not set(known.groups[known.unseen]) & set(known.groups[known.train])
    assert len(np.unique(known.groups[known.unseen])) == 2
    turn = np.abs(known.turn(known.train[:, None], known.blocks[None]))[..., 0]
    assert turn.min() >= parts[1].GAP
    start, end = known.steps(known.blocks)
    assert np.abs(known.turn(start, end)).max() <= parts[1].STEP
    assert set(start) | set(end) <= set(known.blocks)


def test_pairs_by_time_are_one_step_ahead(parts, turntable):
    known = parts[1].read_turntable(turntable, 0)
    pairs = known.pairs_by_time()
    assert set(pairs.ravel()) <= set(known.train)
    assert np.abs(known.turn(pairs[:, 0], pairs[:, 1]) - parts[1].TIME).max() <= 1


def circles(known, n_dimensions=8):
    """Give every object a circle of its own in latent space, round a centre of its own."""
    z = torch.zeros(len(known.groups), n_dimensions)
    turn = torch.from_numpy(np.radians(known.angles[:, 0])).float()
    z[:, 0], z[:, 1] = turn.cos(), turn.sin()
    z[torch.arange(len(z)), 2 + torch.from_numpy(known.groups)] = 1.0
    return z


def rotation(first, second, n_dimensions=8):
    operator = torch.zeros(1, n_dimensions, n_dimensions)
    operator[0, second, first], operator[0, first, second] = 1.0, -1.0
    return operator


@pytest.mark.parametrize(("plane", "follows"), [((0, 1), True), ((6, 7), False)])
def test_measures_tell_the_true_rotation_from_another(parts, turntable, plane, follows):
    _, sets, _, measures, *_ = parts
    known = sets.read_turntable(turntable, 0)
    z, operators = circles(known), rotation(*plane)
    operators = torch.cat([operators, 0.1 * rotation(0, 2)])
    features = measures.coefficients_of(operators, z, 1e-4)
    steps = [measures.Steps.of(known, rows, 0) for rows in (known.train, known.blocks)]
    far = measures.Steps.of(known, known.unseen, 0)
    reading = measures.read_factor(features, 0, *steps, far, far)
    rate = measures.speeds(features, 0, steps[0])
    turns = measures.whole_turns(operators, z, known, known.blocks, rate)
    if follows:
        assert min(reading.scores.values()) > 0.99
        assert turns["closing"] < 0.01
        assert turns["angle error"] < 3
        assert turns["shown"] == 1
        assert measures.cumulative(features, known, known.unseen, reading.column, 4) > 0.99
        ahead = measures.turn_on(z, known, known.unseen, operators, features)
        assert ahead["operators"]["48"] < 0.05
        assert ahead["straight line"]["48"] > 0.3
    else:
        assert reading.scores["held-out one"] < 0.5
        assert turns["angle error"] > 30


def test_differences_cannot_follow_a_circle(parts, turntable):
    _, sets, _, measures, *_ = parts
    known = sets.read_turntable(turntable, 0)
    z = circles(known)
    steps = [
        measures.Steps.of(known, rows, 0) for rows in (known.train, known.blocks, known.unseen)
    ]
    features = measures.differences_of(z, known.train)
    reading = measures.read_factor(features, 0, *steps, steps[2])
    assert reading.scores["held-out one"] < 0.5
    assert reading.scores["train all"] < 0.5


def test_the_best_of_many_starts_goes_one_way_round_every_circle(parts, turntable):
    _, sets, _, measures, *_, starts = parts
    known = sets.read_turntable(turntable, 0)
    z = circles(known)
    there, back = known.steps(known.train)
    generator, share = starts.best_start(z[there], z[back], seed=0)
    assert 0 < share < 1  # some starts end elsewhere
    steps = [measures.Steps.of(known, rows, 0) for rows in (known.train, known.blocks)]
    features = measures.along_generator(generator, z)
    scores = measures.read_factor(features, 0, *steps, *steps).scores
    assert scores["held-out one"] > 0.99
    assert scores["one way"] == 1


@pytest.mark.filterwarnings("ignore")
def test_the_script_measures_everything_once(parts, turntable, tmp_path, monkeypatch, capsys):
    script = parts[0]
    out = tmp_path / "out"
    command = ["study", str(out), "--set", "turntable", "--data", str(turntable), "--quick"]
    monkeypatch.setattr(sys, "argv", [*command, "--seeds", "0", "--operators", "2", "--best", "2"])
    script.main()
    found = json.loads((out / "ground-truth-turntable.json").read_text())["seeds"]["0"]
    kinds = ("neighbours, 2", "time, 2")
    learned = {f"operators, {kind}{start}" for kind in kinds for start in ("", ", best start")}
    assert set(found) >= {"straight lines", "cae", "beta-vae", *learned}
    for name in learned:
        assert 0 <= found[name]["turn, best operator"]["closing"] <= 1
        assert found[name]["angle"]["held-out one"] <= 1
    assert "| straight lines |" in capsys.readouterr().out
    monkeypatch.setattr(script, "Lesson", None)  # a second call measures nothing again
    script.main()


def test_unseen_people_are_relit_by_what_others_show(parts, tmp_path):
    _, sets, _, measures, relighting, *_ = parts
    lights = [(a, e) for a in (-50, -35, 0, 35, 50) for e in (-20, 0, 20)]
    n = 10
    person, light = (part.ravel() for part in np.mgrid[0:n, 0 : len(lights)])
    path = tmp_path / "light.npz"
    np.savez(
        path,
        images=np.zeros((n * len(lights), 8, 8, 1), np.uint8),
        labels=person,
        azimuth_deg=np.array(lights)[light, 0],
        elevation_deg=np.array(lights)[light, 1],
    )
    known = sets.read_yale(path, 0)
    assert len(np.unique(known.groups[known.unseen])) == sets.UNSEEN_PEOPLE
    assert not set(known.groups[known.unseen]) & set(known.groups[known.train])
    z = torch.zeros(len(person), 6)  # everybody turns by the light's azimuth, at any radius
    turn = torch.from_numpy(np.radians(known.angles[:, 0])).float()
    size = 1 + torch.from_numpy(person).float() / n
    z[:, 0], z[:, 1] = size * turn.cos(), size * turn.sin()
    operators = rotation(0, 1, 6)
    features = measures.coefficients_of(operators, z, 1e-5)
    found = relighting.relight(z, known, 0, operators, features)
    assert found["operators"]["near"] < 0.01
    assert found["mean difference"]["near"] > 0.1
