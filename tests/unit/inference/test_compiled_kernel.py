"""The compiled Gauss-Newton kernel against a plain SciPy reading of the objective."""

import multiprocessing
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, expm_frechet

from transop.inference import gauss_newton_compiled
from transop.inference._workspace import Workspace, lay_out, quadrature_for
from transop.inference.gauss_newton_compiled import solve
from transop.inference.gauss_newton_torch import solve_batched
from transop.inference.problem import Problem
from transop.operators import block_size


def objective(operators, coefficients, z0, z1, weights):
    values = []
    for c, a, b, w in zip(coefficients, z0, z1, weights, strict=True):
        moved = expm(np.tensordot(c, operators, 1)) @ a
        values.append(0.5 * np.sum((b - moved) ** 2) + np.sum(w * np.abs(c)))
    return np.array(values)


def planted(n_pairs=40, dimension=5, n_operators=7, noise=0.02, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    operators = rng.standard_normal((n_operators, dimension, dimension))
    operators *= 2 / np.linalg.norm(operators, axis=(1, 2), keepdims=True)
    z0 = rng.standard_normal((n_pairs, dimension)) / np.sqrt(dimension)
    truth = rng.laplace(scale=0.2, size=(n_pairs, n_operators))
    truth *= rng.random((n_pairs, n_operators)) < 0.4
    z1 = np.stack([expm(np.tensordot(c, operators, 1)) @ z for c, z in zip(truth, z0, strict=True)])
    z1 += noise * rng.standard_normal(z1.shape)
    weights = np.full((n_pairs, n_operators), 0.01)
    return tuple(x.astype(dtype) for x in (operators, z0, z1, weights, truth))


def run(operators, z0, z1, weights, initial=None, max_iterations=200, tolerance=1e-6, n_threads=1):
    initial = np.zeros_like(weights) if initial is None else initial
    return solve(operators, z0, z1, weights, initial, max_iterations, tolerance, n_threads)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-5), (np.float64, 1e-11)])
def test_reported_objective_and_residual_are_those_of_the_returned_coefficients(dtype, rtol):
    operators, z0, z1, weights, _ = planted(dtype=dtype)
    c, value, residual, converged, iterations = run(operators, z0, z1, weights)
    assert c.dtype == value.dtype == residual.dtype == dtype
    assert converged.all()
    assert (iterations >= 1).all()
    exact = [x.astype(np.float64) for x in (operators, c, z0, z1, weights)]
    np.testing.assert_allclose(value, objective(*exact), rtol=rtol)
    data = objective(*exact[:4], np.zeros_like(exact[4]))
    expected = np.sqrt(2 * data) / np.linalg.norm(z1, axis=1)
    np.testing.assert_allclose(residual, expected, rtol=100 * rtol)


def test_solutions_satisfy_the_optimality_conditions():
    operators, z0, z1, weights, _ = planted(n_pairs=12)
    c, *_ = run(operators, z0, z1, weights, tolerance=1e-14)
    for row, a, b, w in zip(c, z0, z1, weights, strict=True):
        generator = np.tensordot(row, operators, 1)
        residual = b - expm(generator) @ a
        slopes = np.array(
            [-residual @ expm_frechet(generator, p, compute_expm=False) @ a for p in operators]
        )
        used = row != 0
        np.testing.assert_allclose(slopes[used], -w[used] * np.sign(row[used]), atol=2e-6)
        assert (np.abs(slopes[~used]) <= w[~used] * (1 + 1e-6)).all()


def test_planted_coefficients_are_recovered_when_the_penalty_is_small():
    operators, z0, z1, weights, truth = planted(n_operators=4, noise=0.0)
    c, _, residual, converged, _ = run(operators, z0, z1, weights * 1e-7, tolerance=1e-12)
    near = np.abs(truth).max(axis=1) < 0.3  # longer paths may have a second explanation
    assert converged.all()
    assert residual.max() < 1e-3
    np.testing.assert_allclose(c[near], truth[near], atol=2e-3)


def test_a_rotation_angle_is_found_exactly():
    turn = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    angles = np.linspace(-1.5, 1.5, 13)
    z0 = np.tile([1.0, 0.0], (13, 1))
    z1 = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    c, *_ = run(turn, z0, z1, np.zeros((13, 1)), tolerance=1e-14)
    np.testing.assert_allclose(c[:, 0], angles, atol=1e-9)


@pytest.mark.parametrize("turns", [0.1, 1.0, 6.0])
def test_long_paths_are_transported_exactly(turns):
    rng = np.random.default_rng(3)
    generator = rng.standard_normal((9, 9))
    generator -= generator.T
    generator *= turns * 2 * np.pi / np.linalg.norm(generator, 2)
    z0 = rng.standard_normal((5, 9))
    c = np.linspace(0.8, 1.0, 5)[:, None]
    z1 = np.stack([expm(s * generator) @ z for s, z in zip(c[:, 0], z0, strict=True)])
    z1 *= 1.01
    weights = np.full((5, 1), 1e-3)
    found = run(generator[None], z0, z1, weights, initial=c, max_iterations=1)
    expected = objective(generator[None], c, z0, z1, weights)
    np.testing.assert_allclose(found[0], c, rtol=1e-14)
    np.testing.assert_allclose(found[1], expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    size=st.tuples(st.integers(1, 11), st.integers(1, 7), st.integers(1, 13)),
    operator_norm=st.floats(-6, 1.7).map(lambda e: 10.0**e),
    point_norm=st.floats(-6, 3).map(lambda e: 10.0**e),
    weight=st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e6]),
    start=st.sampled_from([0.0, 0.1, 10.0, 1e8]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_answers_are_finite_and_never_worse_than_doing_nothing(
    dtype, size, operator_norm, point_norm, weight, start, seed
):
    n_pairs, m, d = size
    rng = np.random.default_rng(seed)
    operators = rng.standard_normal((m, d, d))
    operators *= operator_norm / np.linalg.norm(operators, axis=(1, 2), keepdims=True)
    z0, z1 = point_norm * rng.standard_normal((2, n_pairs, d))
    weights = np.full((n_pairs, m), weight)
    initial = start * rng.standard_normal((n_pairs, m))
    arrays = [x.astype(dtype) for x in (operators, z0, z1, weights, initial)]
    c, value, residual, _, _ = solve(*arrays, 60, 1e-5, 1)
    assert np.isfinite(c).all()
    assert np.isfinite(residual).all()
    nothing = 0.5 * np.sum((arrays[2] - arrays[1]).astype(np.float64) ** 2, axis=1)
    assert (value <= nothing * (1 + 1e-5) + 1e-30).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 1e12, 1e30])
def test_operators_of_any_size_give_finite_answers_in_consistent_units(dtype, size):
    operators, z0, z1, weights, _ = planted(dtype=dtype)
    usual = run(operators, z0, z1, weights)
    c, value, *_ = run((operators * dtype(size)), z0, z1, weights * dtype(size))
    assert np.isfinite(c).all()
    if size == 0:
        assert (c == 0).all()
    else:
        np.testing.assert_allclose(c * dtype(size), usual[0], atol=2e-3)
        np.testing.assert_allclose(value, usual[1], rtol=1e-4)


def test_zero_points_identical_points_and_defective_operators_are_harmless():
    shift = np.zeros((2, 4, 4))
    shift[0, 0, 1] = 1.0  # nilpotent: no eigenbasis
    shift[1, 1, 2] = shift[1, 2, 3] = 1.0
    point = np.array([0.3, -0.2, 0.5, 0.1])
    zero = np.zeros(4)
    z0 = np.stack([zero, zero, point, point, point])
    z1 = np.stack([zero, point, zero, point, point + np.array([0.1, 0.2, 0.05, 0.0])])
    weights = np.full((5, 2), 1e-3)
    c, value, _, converged, _ = run(shift, z0, z1, weights)
    assert converged.all()
    assert (c[:2] == 0).all()
    assert (c[3] == 0).all()
    assert value[3] == 0
    np.testing.assert_allclose(value, objective(shift, c, z0, z1, weights), rtol=1e-10)
    assert value[4] < 0.5 * np.sum((z1[4] - z0[4]) ** 2)


def test_a_pair_of_non_numbers_spoils_no_neighbour():
    operators, z0, z1, weights, _ = planted(n_pairs=20)
    clean = run(operators, z0, z1, weights)
    z1[3, 2] = np.nan
    c, _, _, converged, _ = run(operators, z0, z1, weights)
    others = np.arange(20) != 3
    assert not converged[3]
    assert (c[3] == 0).all()
    np.testing.assert_allclose(c[others], clean[0][others], atol=1e-3)


def test_each_pair_and_operator_has_its_own_weight():
    operators, z0, z1, weights, _ = planted()
    weights[::2, 1::2] = 1e9
    weights[1::2, ::2] = 1e9
    c, *_ = run(operators, z0, z1, weights)
    assert (c[::2, 1::2] == 0).all()
    assert (c[1::2, ::2] == 0).all()
    assert (c != 0).any()


def test_a_bad_start_does_not_keep_a_pair_from_the_better_answer():
    operators, z0, z1, weights, _ = planted()
    initial = np.full_like(weights, 3.0)
    _, value, *_ = run(operators, z0, z1, weights, initial=initial)
    assert (value <= 0.5 * np.sum((z1 - z0) ** 2, axis=1)).all()


def test_pairs_that_run_out_of_iterations_say_so():
    operators, z0, z1, weights, _ = planted()
    _, _, _, converged, iterations = run(operators, z0, z1, weights, max_iterations=2)
    assert not converged.all()
    assert iterations.max() == 2


def test_a_restart_from_zero_does_not_extend_the_limit():
    operators, z0, z1, weights, _ = planted()
    initial = np.full_like(weights, 3.0)
    for limit in (1, 2, 3, 7, 20):
        _, value, _, converged, iterations = run(
            operators, z0, z1, weights, initial=initial, max_iterations=limit
        )
        assert iterations.max() <= limit
        assert (value <= 0.5 * np.sum((z1 - z0) ** 2, axis=1) * (1 + 1e-6)).all()
        assert converged[iterations < limit].all()


def violation(operators, c, z0, z1, weight):
    """Measure how far a pair is from optimal, in units of the weight and of |residual| |column|."""
    generator = np.tensordot(c, operators, 1)
    residual = z1 - expm(generator) @ z0
    columns = [expm_frechet(generator, p, compute_expm=False) @ z0 for p in operators]
    slopes = np.array([-residual @ column for column in columns])
    off = np.where(c != 0, slopes + weight * np.sign(c), np.maximum(np.abs(slopes) - weight, 0))
    units = weight + np.linalg.norm(residual) * np.linalg.norm(columns, axis=1)
    return np.max(np.abs(off) / units)


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 2e-2), (np.float64, 1e-2)])
def test_converged_means_stationary_on_long_and_curved_paths(dtype, limit):
    n_converged = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d, m = int(rng.integers(2, 10)), int(rng.integers(1, 8))
        operators = rng.standard_normal((m, d, d))
        operators *= 8 / np.linalg.norm(operators, axis=(1, 2), keepdims=True)
        z0, z1 = rng.standard_normal((2, 4, d))
        weight = 10 ** rng.uniform(-2, 0)
        arrays = [x.astype(dtype) for x in (operators, z0, z1, np.full((4, m), weight))]
        c, _, _, converged, _ = run(*arrays)
        n_converged += converged.sum()
        for i in np.flatnonzero(converged):
            assert violation(operators, c[i].astype(float), z0[i], z1[i], weight) < limit
    assert n_converged > 0.9 * 240


def test_the_answer_does_not_depend_on_the_number_of_threads():
    operators, z0, z1, weights, _ = planted(n_pairs=300, dtype=np.float32)
    one = run(operators, z0, z1, weights, n_threads=1)
    three = run(operators, z0, z1, weights, n_threads=3)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "rtol"), [(np.float32, 1e-6, 1e-4), (np.float64, 1e-12, 1e-8)]
)
def test_a_batch_gives_what_its_pairs_give_one_by_one(dtype, tolerance, rtol):
    operators, z0, z1, weights, _ = planted(n_pairs=12, dtype=dtype)
    z1[3] *= 4  # far away: the group of eight takes the substeps and terms that this pair needs
    together = run(operators, z0, z1, weights, tolerance=tolerance)
    for i in range(12):
        rows = slice(i, i + 1)
        alone = run(operators, z0[rows], z1[rows], weights[rows], tolerance=tolerance)
        np.testing.assert_allclose(alone[1][0], together[1][i], rtol=rtol)
        np.testing.assert_allclose(alone[0][0], together[0][i], atol=np.sqrt(rtol))


def test_the_arrays_of_the_workspace_do_not_overlap():
    sizes = (8, 7, 5, 1, 5, 8, 8)
    layout, n_numbers = lay_out(sizes, quadrature_for(np.dtype(np.float32)).many)
    assert len(layout) == len(Workspace._fields)
    assert tuple(layout[: len(sizes)]) == sizes
    assert (np.diff([*layout[len(sizes) :], n_numbers]) > 0).all()


@pytest.mark.parametrize("n_operators", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
def test_answers_do_not_depend_on_what_was_left_in_memory(dimension, n_operators):
    problem = planted(n_pairs=9, dimension=dimension, n_operators=n_operators)[:4]
    expected = run(*problem)
    for memory in gauss_newton_compiled._kept.__dict__.values():
        memory[:] = np.nan
    for a, b in zip(run(*problem), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def _hard(kind, n_operators, dimension, dtype, n_pairs=64, seed=0):
    """Targets that operators can hardly reach."""
    rng = np.random.default_rng(seed)
    operators = rng.standard_normal((n_operators, dimension, dimension))
    if kind == "rotations":
        operators -= operators.transpose(0, 2, 1)
    operators /= np.linalg.norm(operators, axis=(1, 2), keepdims=True)
    z0 = rng.standard_normal((n_pairs, dimension))
    z1 = z0 + (1.0 if kind == "rotations" else 0.3) * rng.standard_normal((n_pairs, dimension))
    return [x.astype(dtype) for x in (operators, z0, z1)]


def test_far_targets_are_reached_as_well_as_with_the_exact_jacobian_throughout():
    operators, z0, z1 = _hard("rotations", 4, 6, np.float64)
    weights = np.full((64, 4), 1e-2)
    _, value, _, converged, _ = run(operators, z0, z1, weights, max_iterations=100)
    tensors = [torch.from_numpy(x) for x in (operators, z0, z1, weights)]
    batched = solve_batched(
        Problem(*tensors), torch.zeros_like(tensors[3]), max_iterations=100, tolerance=1e-6
    )
    assert converged.mean() > 0.95
    assert value.mean() < 1.05 * float(batched.objective.mean())


@pytest.mark.parametrize("weight", [0.0, 1e-2])
def test_pairs_at_the_floor_of_single_precision_count_as_converged(weight):
    operators, z0, z1 = _hard("rotations", 1, 3, np.float32, n_pairs=256)
    _, _, _, converged, _ = run(operators, z0, z1, np.full((256, 1), weight, np.float32))
    assert converged.mean() > 0.98


def test_no_pairs_give_empty_results():
    operators, z0, z1, weights, _ = planted()
    c, value, residual, converged, iterations = run(operators, z0[:0], z1[:0], weights[:0])
    assert c.shape == (0, 7)
    assert value.shape == residual.shape == converged.shape == iterations.shape == (0,)


def test_concurrent_callers_do_not_disturb_each_other():
    problem = planted(n_pairs=200, dtype=np.float32)[:4]
    expected = run(*problem, n_threads=2)[0]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(run, *problem, n_threads=2) for _ in range(12)]
        for future in futures:
            np.testing.assert_array_equal(future.result()[0], expected)


def _solve_in_child(problem, answers):
    answers.put(run(*problem, n_threads=2)[0])


def test_a_forked_child_can_solve_after_its_parent_used_threads():
    problem = planted(n_pairs=200, dtype=np.float32)[:4]
    expected = run(*problem, n_threads=2)[0]
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_solve_in_child, args=(problem, answers))
    child.start()
    try:
        np.testing.assert_array_equal(answers.get(timeout=30), expected)
    finally:
        child.join(timeout=10)
        child.kill()


_FIRST_SOLVE = """
import time
import torch
begin = time.process_time()
from transop.inference import infer_coefficients
z = torch.randn(20, 4)
infer_coefficients(torch.randn(3, 4, 4) / 4, z, z + 0.1, sparsity_weight=0.05)
print(time.process_time() - begin)
"""


@pytest.mark.slow
def test_the_second_process_does_not_compile(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def seconds():
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_SOLVE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)

    first, second = seconds(), seconds()
    assert second < 3
    assert second < first / 3


@pytest.mark.slow
def test_fifty_thousand_pairs_need_little_memory():
    operators, z0, z1, weights, _ = planted(n_pairs=200, dimension=32, n_operators=40)
    many = [np.tile(x, (250, 1)).astype(np.float32) for x in (z0, z1, weights)]
    operators = operators.astype(np.float32)
    tracemalloc.start()
    _, _, _, converged, _ = run(operators, *many, n_threads=2, tolerance=1e-4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(converged) == 50_000
    assert peak < 2**28


def test_wide_blocks_and_one_pair_at_a_time_share_one_answer_with_the_exact_jacobian():
    # 44 dimensions are solved one pair at a time, padded to 48.
    operators, z0, z1, weights, _ = planted(12, 44, 9, noise=0.05, dtype=np.float64)
    found = run(operators, z0, z1, weights, tolerance=1e-9)
    tensors = [torch.from_numpy(x) for x in (operators, z0, z1, weights)]
    exact = solve_batched(
        Problem(*tensors), torch.zeros(12, 9).double(), max_iterations=200, tolerance=1e-9
    )
    np.testing.assert_allclose(found[1], exact.objective, rtol=1e-6)
    np.testing.assert_allclose(found[1], objective(operators, found[0], z0, z1, weights), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-4), (np.float64, 1e-5)])
@pytest.mark.parametrize("distance", [0.3, 0.7])
def test_sixty_four_dimensions_reach_the_objective_of_the_torch_back_end(dtype, rtol, distance):
    rng = np.random.default_rng(3)
    operators = rng.standard_normal((12, 64, 64))
    operators /= np.linalg.norm(operators, axis=(1, 2), keepdims=True) / 2
    z0 = rng.standard_normal((16, 64)) / 8
    gap = rng.standard_normal((16, 64))
    scale = distance * np.linalg.norm(z0, axis=1) / np.linalg.norm(gap, axis=1)
    z1 = z0 + gap * scale[:, None]
    weights = np.full((16, 12), 0.002)
    found = run(*(x.astype(dtype) for x in (operators, z0, z1, weights)))
    assert found[3].all()
    tensors = [torch.from_numpy(x) for x in (operators, z0, z1, weights)]
    exact = solve_batched(
        Problem(*tensors), torch.zeros(16, 12).double(), max_iterations=200, tolerance=1e-8
    )
    np.testing.assert_allclose(found[1], exact.objective, rtol=rtol)
    assert ((found[0] != 0).sum(1) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shared", [True, False])
def test_blocks_give_what_the_same_operators_give_undivided(dtype, shared, monkeypatch):
    rng = np.random.default_rng(5)
    operators = np.zeros((6, 36, 36))
    for m in range(6):
        for block in range(3) if shared else [m % 3]:
            part = slice(12 * block, 12 * block + 12)
            operators[m, part, part] = 0.3 * rng.standard_normal((12, 12))
    z0 = rng.standard_normal((20, 36)) / 6
    z1 = z0 + 0.05 * rng.standard_normal((20, 36))
    problem = [x.astype(dtype) for x in (operators, z0, z1, np.full((20, 6), 0.002))]
    assert block_size(torch.from_numpy(operators)) == 12
    blocks = run(*problem)
    monkeypatch.setattr(gauss_newton_compiled, "block_size", lambda matrices: matrices.shape[-1])
    undivided = run(*problem)
    rtol = 1e-4 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(blocks[1], undivided[1], rtol=rtol)
    np.testing.assert_allclose(blocks[0], undivided[0], atol=np.sqrt(rtol))
