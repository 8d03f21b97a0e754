"""Networks are scored on changed test images, and a result on disk is not computed again."""

import dataclasses
import json

import pytest
import torch

from transop.errors import UserError
from transop_paper.scarce import robustness
from transop_paper.scarce.corruptions import CORRUPTIONS
from transop_paper.scarce.experiment import Experiment
from transop_paper.scarce.robustness import UNCHANGED, ChangedImages, score_under_changes
from transop_paper.scarce.rows import find_rows


@pytest.fixture
def experiment(strokes, quick, tmp_path):
    return Experiment(strokes, quick, tmp_path)


@pytest.fixture
def tests(strokes):
    return ChangedImages.of(strokes, 20)


def test_images_are_evenly_spaced_test_images_and_all_changes_keep_their_labels(strokes, tests):
    assert list(tests.by_change) == [UNCHANGED, *CORRUPTIONS]
    rows = strokes.splits["test"]
    assert torch.equal(tests.by_change[UNCHANGED][-1], strokes.batch(rows[-1:])[0])
    assert tests.labels[-1] == strokes.labels[rows[-1]]
    assert {images.shape for images in tests.by_change.values()} == {(20, 1, 16, 16)}
    assert len(ChangedImages.of(strokes, 1000).labels) == len(rows)


def test_a_row_is_scored_under_every_change(experiment, tests):
    [row] = find_rows(["none"], "mnist")
    result = score_under_changes(experiment, row, 0, tests)
    accuracy = result["accuracy"]
    assert list(accuracy) == list(tests.by_change)
    assert accuracy[UNCHANGED] > 60
    assert accuracy["impulse noise"] < accuracy[UNCHANGED]
    assert json.loads(experiment.result_file(row, 0).read_text()) == result


def test_a_result_on_disk_is_taken_unless_other_settings_made_it(experiment, tests, monkeypatch):
    [row] = find_rows(["none"], "mnist")
    first = score_under_changes(experiment, row, 0, tests)
    trained = []
    train = robustness.train_on_labelled
    monkeypatch.setattr(robustness, "train_on_labelled", lambda *a: trained.append(a) or train(*a))
    assert score_under_changes(experiment, row, 0, tests) == first
    assert not trained
    longer = dataclasses.replace(experiment.protocol, n_steps=70)
    score_under_changes(dataclasses.replace(experiment, protocol=longer), row, 0, tests)
    assert len(trained) == 1


def test_images_without_labels_or_with_colours_are_refused(strokes):
    with pytest.raises(UserError, match="no labelled test images"):
        ChangedImages.of(dataclasses.replace(strokes, labels=None), 10)
    colours = dataclasses.replace(strokes, images=strokes.images.repeat(3, axis=1))
    with pytest.raises(UserError, match="3 channels"):
        ChangedImages.of(colours, 10)
