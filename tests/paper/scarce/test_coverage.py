"""``benchmarks/coverage_study.py``: what is missed is told from what is misled."""

import importlib.util
from pathlib import Path

import pytest
import torch

from transop_paper.scarce.experiment import Experiment
from transop_paper.scarce.rows import find_rows

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "coverage_study.py"
spec = importlib.util.spec_from_file_location("coverage_study", SCRIPT)
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)


@pytest.fixture
def study(strokes, model, settings, quick, tmp_path):
    experiment = Experiment(strokes, quick, tmp_path, model, settings, "abc")
    return coverage.CoverageStudy(experiment, n_images=120, reference_steps=200)


def measure(study, name):
    return study.measure(find_rows([name], "mnist")[0], seed=0)


def test_images_as_they_are_keep_their_labels_and_label_most_of_the_others(study):
    found = measure(study, "none")
    assert found.label_errors < 0.1
    assert 0 <= found.missed < 0.5
    assert abs(found.misled) < 0.1
    assert found.examples.shape == (3, 1, 16, 16)


def test_strong_distortions_lose_the_label_more_often(study):
    calm = measure(study, "elastic@alpha=0.1")
    wild = measure(study, "elastic@alpha=300,sigma=2")
    assert wild.label_errors > calm.label_errors + 0.2


def test_wrong_labels_are_told_apart_from_missing_images(study, strokes, monkeypatch):
    images = strokes.batch(strokes.splits["validation"])
    truth = torch.from_numpy(strokes.labels[strokes.splits["validation"]])
    wrong = truth.clone()
    wrong[: len(wrong) // 2] = (wrong[: len(wrong) // 2] + 1) % 3
    monkeypatch.setattr(coverage, "make_training_images", lambda *_: lambda n: (images, wrong))
    monkeypatch.setattr(study, "_classify", lambda made: truth)
    found = measure(study, "none")
    assert found.label_errors == pytest.approx(0.5, abs=0.02)
    assert found.missed + found.misled == pytest.approx(found.label_errors, abs=1e-6)
    assert found.missed < 0.1


def test_the_same_seed_gives_the_same_numbers(study):
    first, second = measure(study, "elastic"), measure(study, "elastic")
    assert (first.missed, first.misled) == (second.missed, second.misled)
    torch.testing.assert_close(first.examples, second.examples)
