"""What figures of the paper draw from their numbers."""

import numpy as np
import pytest

from transop_paper.figures import FIGURES, inference_time
from transop_paper.figures.embedding import spaced_out
from transop_paper.figures.figure import Numbers, spread_apart


def tiles(*shape, size=6):
    return np.random.default_rng(0).random((*shape, 1, size, size)).astype(np.float32)


def draw(name, arrays, facts=None):
    return FIGURES[name].draw(Numbers(arrays, facts or {}))


def test_dead_operators_are_marked():
    arrays = {"magnitudes": np.array([0.01, 2, 1]), "living": np.array([False, True, True])}
    (axes,) = draw("magnitudes", arrays).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "0"]
    assert len(axes.texts) == 1
    assert "shrunk" in axes.get_xlabel()


def test_the_fastest_solver_stands_on_top():
    arrays = {"seconds": np.array([[1, 2], [1e-3, 2e-3]]), "objective": np.array([1.0, 2.0])}
    sizes = {"n_pairs": 2, "dimension": 3, "n_operators": 4}
    (axes,) = draw("inference-time", arrays, {"solvers": ["slow", "fast"], **sizes}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["slow", "fast"]
    assert "1.5 ms  (objective 2.000 x the best)" in axes.texts[1].get_text()


def test_a_slow_solver_with_fewer_trials_is_drawn_by_those_it_has():
    seconds = np.array([[1, 3, np.nan], [1e-3, 2e-3, 3e-3]])
    sizes = {"n_pairs": 2, "dimension": 3, "n_operators": 4, "solvers": ["slow", "fast"]}
    figure = draw("inference-time", {"seconds": seconds, "objective": np.ones(2)}, sizes)
    assert figure.axes[0].texts[0].get_text().strip().startswith("2 s")
    assert figure.axes[0].get_xlim()[1] == 300


def test_a_solver_without_patience_left_gets_no_further_trials(monkeypatch):
    monkeypatch.setattr(inference_time, "_solve", lambda *_: (1.0, 2.0, 1.0))
    monkeypatch.setattr(inference_time, "_PATIENCE", 0.0)
    trials = np.array(inference_time._trials(None, "slow", [()] * 5, None))
    assert np.isfinite(trials).sum(0).tolist() == [2, 2, 2]
    assert trials.shape == (5, 3)


def test_thumbnails_do_not_overlap():
    points = np.random.default_rng(0).random((200, 2))
    chosen = points[spaced_out(points, 0.2)]
    gaps = np.abs(chosen[:, None] - chosen[None]).max(-1) + 9 * np.eye(len(chosen))
    assert gaps.min() >= 0.19
    assert len(chosen) > 5


def test_an_embedding_has_a_panel_per_operator():
    values = np.random.default_rng(1).random((30, 5))
    arrays = {"points": values[:, :2], "images": tiles(30), "scales": values[:, 2:]}
    for labels in (np.zeros(0, int), np.arange(30)):
        figure = draw("embedding", {**arrays, "labels": labels}, {"operators": [7, 8, 9]})
        titles = [axes.get_title(loc="left") for axes in figure.axes]
        assert titles[1:4] == ["operator 7", "operator 8", "operator 9"]


def test_probabilities_stand_under_their_images():
    arrays = {
        "times": np.arange(0, 2.1, 0.5),
        "frames": tiles(2, 3, 5),
        "probability": np.ones((2, 3, 5)),
    }
    figure = draw("path-strips", arrays, {"methods": ["mae", "ae", "cae"], "labels": ["a", "b"]})
    assert len(figure.axes) == 4
    assert len(figure.axes[0].patches) == 3  # the column at t = 1
    assert len(figure.axes[1].lines) == 4


def test_spectra_of_two_kinds_of_pairs_are_compared():
    arrays = {}
    for number, name in enumerate(("pixel", "latent")):
        arrays |= {f"{name}.largest": np.full(3, number), f"{name}.eigenvalues": np.ones((3, 4, 2))}
    left, right = draw("pair-eigenvalues", arrays, {"strategies": ["pixel", "latent"]}).axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "pixel pairs",
        "latent pairs",
    ]
    assert right.get_xlim()[1] > 1


def test_latent_curves_of_two_kinds_of_pairs_have_a_panel_per_operator():
    paths = np.ones((3, 81, 2))
    arrays = {"coefficients": np.linspace(-1, 1, 81), "pixel": paths, "latent": 9 * paths}
    figure = draw("pair-paths", arrays, {"strategies": ["pixel", "latent"]})
    assert sum(len(axes.lines) > 0 for axes in figure.axes) == 6
    assert {axes.get_ylim() for axes in figure.axes} == {(-2.5, 2.5)}


def test_labels_are_moved_apart_and_keep_their_order():
    placed = spread_apart(np.array([0.0, 0.01, 0.02, 5.0]), 0.5)
    assert (np.diff(placed[:3]) >= 0.5 - 1e-6).all()
    assert placed[3] == pytest.approx(5.0)
