"""What the views Path, Map, Augment and Run compute, without a page."""

import zipfile
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from transop.errors import UserError
from transop_app.explorer import ExploredRun, opened
from transop_app.explorer.augment import augment_images
from transop_app.explorer.latent_map import draw_map
from transop_app.explorer.opened import NINE_IN_TEN
from transop_app.explorer.path import find_path, notable_classes
from transop_app.explorer.transform import start_from
from transop_app.report.describe import environment_rows, phase_results


@pytest.fixture(scope="module")
def run(full_run):
    return ExploredRun.open(full_run)


@pytest.fixture(scope="module")
def bare(make_run):
    return ExploredRun.open(make_run(encoder=False, classifier=False, labels=False, images=False))


@pytest.fixture(scope="module")
def found(run):
    return find_path(run, run.example(None, 1), run.example(None, 2))


def test_path_and_line_start_at_the_reconstruction_of_the_start(run, found):
    expected = run.model.reconstruct(run.example(None, 1)).numpy()
    at = found.track.position(0)
    np.testing.assert_allclose(found.path.frames[at], expected, atol=1e-5)
    np.testing.assert_allclose(found.line.frames[at], expected, atol=1e-5)


def test_the_straight_line_arrives_at_the_end(run, found):
    expected = run.model.reconstruct(run.example(None, 2)).numpy()
    np.testing.assert_allclose(found.line.frames[found.track.position(1)], expected, atol=1e-4)


def test_a_path_goes_from_minus_one_to_three(found):
    assert found.track.times[[0, -1]].tolist() == [-1.0, 3.0]
    assert found.track.times[found.track.position(1)] == 1.0


def test_a_path_agrees_with_the_models_own_path(run, found):
    frames = run.model.path(run.example(None, 1), run.example(None, 2), t=[2.0]).numpy()
    np.testing.assert_allclose(found.path.frames[found.track.position(2)], frames[0], atol=1e-4)


def test_curves_are_drawn_for_the_classes_at_both_ends_and_for_those_that_win_between(found):
    chosen = notable_classes(found)
    assert int(found.path.probabilities[found.track.position(0)].argmax()) == chosen[0]
    assert int(found.line.probabilities[found.track.position(1)].argmax()) in chosen[:2]
    winners = set(found.path.probabilities.argmax(1)) | set(found.line.probabilities.argmax(1))
    assert set(chosen) == winners


def test_a_bare_run_finds_paths_without_probabilities(bare):
    found = find_path(bare, torch.rand(1, 16, 16), torch.rand(1, 16, 16))
    assert found.path.probabilities is None
    assert notable_classes(found) == []


def test_the_map_shows_the_two_widest_directions(run):
    found = draw_map(run)
    latents = run.shown_latents.double().numpy()
    total = np.linalg.eigvalsh(np.cov(latents.T))
    spread = np.linalg.eigvalsh(np.cov(found.points.T))
    np.testing.assert_allclose(spread, total[-2:], rtol=1e-6)
    assert found.share == pytest.approx(total[-2:].sum() / total.sum())


def test_the_map_shows_all_classes_where_these_come_one_after_another(full_run, monkeypatch):
    run = ExploredRun.open(full_run)
    run.images = replace(run.images, labels=np.sort(run.images.labels))
    monkeypatch.setattr(opened, "_LOOKED_AT", 9)
    assert np.bincount(draw_map(run).labels).tolist() == [3, 3, 3]


def test_the_map_and_the_sliders_name_the_same_ranges(run):
    found = draw_map(run)
    start = start_from(run, run.example(None, 4))
    np.testing.assert_allclose(NINE_IN_TEN * found.scales[3], start.allowed, rtol=1e-4)


def test_a_run_without_images_has_no_map_and_says_why(bare):
    with pytest.raises(UserError, match="cannot be shown"):
        draw_map(bare)


def test_augmentation_gives_a_sheet_and_a_zip_with_every_copy(run):
    images = {"tom.png": run.example(None, 1), "ann.jpg": run.example(None, 2)}
    found = augment_images(run, images, n_copies=3, multiplier=1.0, seed=0)
    with zipfile.ZipFile(BytesIO(found.archive)) as archive:
        expected = [f"{stem}-{n}.png" for stem in ("tom", "ann-jpg") for n in (1, 2, 3)]
        assert archive.namelist() == expected
        copies = [np.asarray(Image.open(archive.open(name))) for name in expected]
    assert copies[0].shape == (16, 16)
    assert not np.array_equal(copies[0], copies[1])
    assert Image.open(BytesIO(found.sheet)).format == "PNG"


def test_augmentation_repeats_with_its_seed(run):
    images = {"a.png": run.example(None, 1)}
    archives = [
        augment_images(run, images, n_copies=2, multiplier=1.0, seed=seed).sheet
        for seed in (1, 1, 2)
    ]
    assert archives[0] == archives[1] != archives[2]


@pytest.mark.parametrize(("images", "copies"), [({}, 1), ({"a.png": 0}, 0), ({"a.png": 0}, 99)])
def test_augmentation_of_nothing_or_too_much_is_refused(run, images, copies):
    given = {name: run.example(None, 1) for name in images}
    with pytest.raises(UserError, match=r"no image|copies"):
        augment_images(run, given, n_copies=copies, multiplier=1.0, seed=0)


def test_the_run_tells_curves_findings_settings_and_environment(run):
    assert run.loss_curves == {"autoencoder": ([10.0, 20.0], [0.2, 0.1])}
    assert run.findings == [("operators", "paths run away <fast>")]
    assert phase_results(run) == {"autoencoder": [("time taken", "1 s")]}
    assert ("python", "3.11") in environment_rows(run)


def test_a_folder_with_only_a_model_tells_nothing_and_does_not_fail(bare):
    assert (bare.loss_curves, bare.phases, bare.findings) == ({}, {}, [])
    assert (phase_results(bare), environment_rows(bare)) == ({}, [])
