"""The study on embeddings runs on a small turntable and on small faces."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = ("embeddings_study", "embeddings.measures", "embeddings.retrieval")
    study, measures, retrieval = (importlib.import_module(name) for name in names)
    for module, changes in (
        (study, {"OPERATORS": 3}),
        (measures, {"JUDGE_STEPS": 5, "SCALE_STEPS": 3, "TESTED": 40, "DRAWS": 1, "BATCH": 20}),
        (retrieval, {"FEW": 2, "BATCH": 20, "TESTED": 40}),
    ):
        for name, value in changes.items():
            monkeypatch.setattr(module, name, value)
    yield study, measures
    for name in (*names, "embeddings"):
        sys.modules.pop(name, None)


def turntable(measures):
    """Two objects that turn in planes of their own, 3 degrees a frame."""
    angle = np.tile(np.arange(0, 360, 3.0), 2)
    objects = np.repeat([0, 1], 120)
    z = torch.zeros(240, 6)
    for row, (turn, which) in enumerate(zip(np.radians(angle), objects, strict=True)):
        z[row, 3 * which : 3 * which + 3] = torch.tensor([np.cos(turn), np.sin(turn), 1.0])
    held_out = (angle // 30) % 2 == 1
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    return measures.Vectors(z / 2**0.5, objects[:, None], train, test, objects, 2, angle)


def faces(measures):
    chance = np.random.default_rng(0)
    z = torch.from_numpy(chance.standard_normal((200, 6))).float() / 6**0.5
    traits = (chance.random((200, 6)) < 0.5).astype(int)
    rows = np.arange(200)
    return measures.Vectors(z, traits, rows[::2], rows[1::2], rows // 4, 3)


@pytest.mark.parametrize("make", [turntable, faces])
@pytest.mark.filterwarnings("ignore")
def test_every_measurement_gives_numbers_for_every_seed(make, script):
    study, measures = script
    results = list(study.study(make(measures), range(2), n_steps=5))
    assert len(results) == 2
    for found in results:
        assert set(found) == set(results[0])
        assert all(row for rows in found.values() for row in rows.values())
    kept = results[0]["moves"]
    assert set(kept) > {"operators, one scale each", "isotropic noise", "towards a neighbour"}
    assert all(0 <= row["linear 0.2"] <= 1 for row in kept.values())


def test_moves_of_all_kinds_have_the_length_that_was_asked_for(script):
    _, measures = script
    data = faces(measures)
    ways = {
        "isotropic": lambda z, s, g: z + s * torch.randn(z.shape, generator=g),
        "radial": lambda z, s, g: z * (1 + s),
    }
    moves = measures.Moves(ways, data.points(), seed=1)
    for name in ways:
        points = data.points()[:20]
        (moved,) = moves.copies(name, points, 0.4, 1)
        length = ((moved - points).norm(dim=1) / points.norm(dim=1)).mean()
        assert float(length) == pytest.approx(0.4, rel=0.02)
