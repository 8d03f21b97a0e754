"""The scikit-learn face of operator learning, on any table of vectors."""

import builtins
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from imblearn.pipeline import Pipeline as ResamplingPipeline
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import check_estimator

import transop
from transop import TransportOperatorLearner, transport
from transop.errors import UserError

QUICK = {"n_steps": 40, "sparsity_weight": 0.01, "learning_rate": 0.03}
EXAMPLES = Path(__file__).parents[2] / "examples"


def ring(n=240, width=6, seed=0):
    """Points on a noisy ring in the first two columns, away from the origin."""
    generator = np.random.default_rng(seed)
    angle = generator.uniform(0, 2 * np.pi, n)
    rows = 0.01 * generator.standard_normal((n, width))
    rows[:, :2] += np.stack([np.cos(angle), np.sin(angle)], 1)
    return rows + 3, (angle > np.pi).astype(int)


@pytest.fixture(scope="module")
def fitted():
    return TransportOperatorLearner(2, **QUICK).fit(ring()[0])


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass():
    """Only its check of array-API input is skipped: it needs an environment variable."""
    learner = TransportOperatorLearner(2, n_steps=2, sparsity_weight=0.05)
    results = check_estimator(learner, on_fail=None, on_skip=None)
    not_passed = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert set(not_passed) <= {"check_array_api_input"}, not_passed
    assert len(results) > 40


def test_paths_follow_the_ring_and_moves_stay_on_it(fitted):
    rows, _ = ring()
    assert fitted.operators_.shape == (2, 6, 6)
    moved = fitted.sample(rows, multiplier=2)
    radius = np.linalg.norm(moved[:, :2] - 3, axis=1)
    step = np.linalg.norm(moved - rows, axis=1)
    assert np.abs(radius - 1).mean() < 0.5 * step.mean()
    assert not np.array_equal(moved, fitted.sample(rows, multiplier=2, random_state=5))
    assert np.array_equal(moved, fitted.sample(rows, multiplier=2))
    assert 0.3 < fitted.score(rows) <= 1


def test_inference_and_paths_agree_with_the_functions_on_tensors(fitted):
    rows, _ = ring()
    start, end = rows[:4], rows[4:8]
    coefficients = fitted.infer(start, end)
    frames = fitted.path(start, end, t=[0, 1])
    np.testing.assert_allclose(frames[:, 0], start, atol=1e-5)
    z0 = torch.from_numpy(start - fitted.mean_).float()
    moved = transport(fitted.learned_.operators, torch.from_numpy(coefficients), z0)
    np.testing.assert_allclose(frames[:, 1], moved.numpy() + fitted.mean_, atol=1e-4)


def test_given_pairs_and_other_features_replace_the_nearest_neighbours():
    rows, _ = ring(60)
    pairs = np.stack([np.arange(59), np.arange(1, 60)], 1)
    given = TransportOperatorLearner(2, **QUICK).fit(rows, pairs=pairs)
    z = (rows - rows.mean(0)).astype(np.float32)
    learned = transop.learn_operators(torch.from_numpy(z[:-1]), torch.from_numpy(z[1:]), 2, **QUICK)
    torch.testing.assert_close(given.learned_.operators, learned.operators)
    one, other = (
        TransportOperatorLearner(2, **QUICK).fit(rows, features=f).operators_
        for f in (rows, rows[:, 2:])
    )
    assert not np.allclose(one, other)


def test_a_bottleneck_moves_the_first_directions_and_carries_the_rest_along():
    generator = np.random.default_rng(0)
    wide = np.concatenate([10 * ring(150)[0], generator.standard_normal((150, 194))], 1)
    learner = TransportOperatorLearner(2, n_components=2, **QUICK).fit(wide)
    assert learner.n_components_ == 2
    assert learner.components_.shape == (2, 200)
    assert 0 < learner.explained_share_ < 1
    step = learner.sample(wide) - wide
    inside = step @ learner.components_.T @ learner.components_
    assert np.abs(step).max() > 0.1
    np.testing.assert_allclose(step, inside, atol=1e-4)


def test_the_number_of_directions_is_chosen_and_reported():
    generator = np.random.default_rng(0)
    wide = generator.standard_normal((80, 100)) * np.linspace(3, 0.01, 100)
    auto = TransportOperatorLearner(2, **QUICK).fit(wide)
    assert 2 < auto.n_components_ <= 64
    assert auto.explained_share_ >= 0.9
    half = TransportOperatorLearner(2, n_components=0.5, **QUICK).fit(wide)
    assert half.n_components_ < auto.n_components_
    assert half.explained_share_ >= 0.5
    blocks = TransportOperatorLearner(4, n_components=0.5, n_blocks=4, **QUICK).fit(wide)
    assert blocks.n_components_ % 4 == 0


@pytest.mark.parametrize("layout", ["diagonal", "one-per-operator"])
def test_block_diagonal_operators_do_not_mix_blocks(layout):
    learner = TransportOperatorLearner(4, n_blocks=2, block_layout=layout, **QUICK).fit(ring()[0])
    blocks = learner.operators_.reshape(4, 2, 3, 2, 3)
    assert (blocks[:, 0, :, 1] == 0).all()
    assert (blocks[:, 1, :, 0] == 0).all()
    acts_on = (np.abs(np.stack([blocks[:, i, :, i] for i in (0, 1)])) > 0).any((2, 3)).sum(0)
    assert acts_on.tolist() == [2 if layout == "diagonal" else 1] * 4


def test_it_stands_in_pipelines_and_can_be_cloned():
    rows, labels = ring()
    learner = TransportOperatorLearner(2, n_copies=3, **QUICK)
    assert clone(learner).get_params() == learner.get_params()
    scored = Pipeline([("pca", PCA(3)), ("operators", learner)]).fit(rows).score(rows)
    assert 0 < scored <= 1
    steps = [("pca", PCA(3)), ("augment", learner), ("classify", LogisticRegression())]
    assert ResamplingPipeline(steps).fit(rows, labels).score(rows, labels) > 0.9
    more, their_labels = learner.fit_resample(rows, labels)
    assert more.shape == (4 * 240, 6)
    assert np.array_equal(their_labels, np.tile(labels, 4))
    assert np.array_equal(more[:240], rows)
    assert not np.allclose(more[240:480], more[480:720])


def test_tensors_and_single_precision_are_taken_as_they_are(fitted):
    rows = torch.from_numpy(ring()[0]).float()
    assert fitted.sample(rows).dtype == np.float32
    assert fitted.sample(rows.double()).dtype == np.float64


def test_duplicated_rows_are_left_out_of_learning():
    rows, _ = ring(50)
    learner = TransportOperatorLearner(2, **QUICK).fit(np.repeat(rows, 8, axis=0))
    assert learner.n_duplicates_ == 350
    once = TransportOperatorLearner(2, **QUICK).fit(rows)
    np.testing.assert_allclose(learner.operators_, once.operators_, atol=1e-4)
    once.score(np.repeat(rows, 2, axis=0))
    assert once.n_duplicates_ == 0  # what was learned from, not what was looked at since
    learner.fit(rows, pairs=[[0, 1], [2, 3]])
    assert learner.n_duplicates_ == 0


def test_neighbours_do_not_depend_on_a_large_mean():
    rows, _ = ring(60)
    here, far = (
        TransportOperatorLearner(2, **QUICK).fit(rows + offset).operators_ for offset in (0, 1e8)
    )
    np.testing.assert_allclose(far, here, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (np.ones(5), {}, "Expected 2D array, got 1D array"),
        (np.ones((1, 3)), {}, r"X has 1 row\(s\)"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), {}, "NaN or inf in 1 of 2 rows, first in row 0"),
        (np.ones((9, 3)), {}, r"all 9 rows of X are equal \(duplicates\)"),
        (np.array([["a", "b"], ["c", "d"]]), {}, "no numbers"),
        (torch.ones(5, 3, device="meta"), {}, "X is on the device 'meta'"),
        (ring(9)[0] * 1e300, {}, r"values up to 4e\+300; divide its columns"),
        (ring(9)[0], {"pairs": [[4, 4]]}, "equal in every pair"),
        (ring(9)[0], {"features": np.ones((9, 2))}, "all 9 rows of features are equal"),
        (ring(9)[0], {"pairs": [[0, 9]]}, "from 0 to 8"),
        (ring(9)[0], {"pairs": [0, 1]}, r"shape \(pairs, 2\)"),
        (ring(9)[0], {"features": np.ones((3, 2))}, "features has 3 rows but X has 9"),
    ],
)
def test_bad_input_is_refused_in_one_line(rows, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        TransportOperatorLearner(2, **QUICK).fit(rows, **options)
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_the_learned_columns_is_refused(fitted):
    with pytest.raises(UserError, match=r"X has 3 features, but .* expecting 6 features"):
        fitted.sample(np.ones((2, 3)))
    with pytest.raises(UserError, match="X0 has 2 rows and X1 3"):
        fitted.infer(np.ones((2, 6)), np.ones((3, 6)))
    with pytest.raises(ValueError, match="call fit first"):
        TransportOperatorLearner().sample(np.ones((2, 3)))
    with pytest.raises(UserError, match="n_components = 99"):
        TransportOperatorLearner(2, n_components=99, **QUICK).fit(ring(9)[0])
    with pytest.raises(UserError, match="y has shape"):
        TransportOperatorLearner(2, **QUICK).fit_resample(ring(9)[0], [1, 2])


def test_without_scikit_learn_the_estimator_still_works(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.split(".")[0] == "sklearn":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    spec = importlib.util.find_spec("transop.estimators")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    learner = module.TransportOperatorLearner(2, **QUICK)
    assert learner.get_params()["n_steps"] == 40
    learner.set_params(n_steps=5)
    with pytest.raises(UserError, match="unknown parameter 'steps'"):
        learner.set_params(steps=5)
    with pytest.raises(UserError, match="call fit first"):
        learner.sample(np.ones((2, 3)))
    rows, _ = ring(30)
    assert learner.fit(rows).sample(rows).shape == rows.shape


@pytest.mark.parametrize(
    ("name", "options"),
    [("torch_features", {"epochs": 3, "n_steps": 5}), ("sklearn_pipeline", {"n_steps": 5})],
)
def test_examples_run_and_are_short(name, options, capsys):
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text().splitlines()) < 40
    spec = importlib.util.spec_from_file_location(name, file)
    example = importlib.util.module_from_spec(spec)
    sys.modules[name] = example
    spec.loader.exec_module(example)
    example.main(**options)
    assert "%" in capsys.readouterr().out
