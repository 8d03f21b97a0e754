import pytest
import torch

from transop.scarce import Experiment, find_rows
from transop.scarce.coverage import CoverageStudy


@pytest.fixture
def study(strokes, model, settings, quick, tmp_path):
    experiment = Experiment(strokes, quick, tmp_path, model, settings, "abc")
    return CoverageStudy(experiment, n_images=120, judge_steps=200)


def measure(study, name):
    return study.measure(find_rows([name], "mnist")[0], seed=0)


def test_images_as_they_are_keep_their_names_and_cover_part_of_a_class(study):
    found = measure(study, "none")
    assert found.label_errors < 0.1
    assert 0 < found.coverage < 1
    assert found.examples.shape == (3, 1, 16, 16)


def test_distortions_without_measure_lose_the_name_more_often(study):
    calm = measure(study, "elastic@alpha=0.1")
    wild = measure(study, "elastic@alpha=300,sigma=2")
    assert wild.label_errors > calm.label_errors + 0.2


def test_the_same_seed_gives_the_same_numbers(study):
    first, second = measure(study, "elastic"), measure(study, "elastic")
    assert first.coverage == second.coverage
    torch.testing.assert_close(first.examples, second.examples)
