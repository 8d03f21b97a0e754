import json
from dataclasses import asdict

import pytest
import torch

from transop.errors import UserError
from transop.inference import infer_coefficients
from transop_paper.bench import inference
from transop_paper.bench.digit_operators import learn_operators, project_digits
from transop_paper.bench.inference import (
    OUR_SOLVER,
    QUICK_SWEEP,
    Size,
    bench_inference,
    count_flops,
)
from transop_paper.bench.peak import measure_peak

FEW = ("proximal-nesterov", "conjugate-gradient")


@pytest.fixture(scope="module")
def report():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "CONTENDERS", FEW)
        return bench_inference([Size(4, 5, 12), Size(6, 4, 8)], repeats=3, learning_steps=5)


def test_every_solver_is_measured_on_every_size(report):
    assert [size.size.n_pairs for size in report.sizes] == [12, 8]
    for size in report.sizes:
        assert [run.solver for run in size.runs] == [OUR_SOLVER, *FEW]
        assert size.runs[0].ratio == 1
        assert len(size.runs[0].seconds) == 3
        assert all(min(run.seconds) > 0 for run in size.runs)
        assert 0 < size.peak_share < 1


def test_ours_is_not_worse_than_any_contender_on_any_pair(report):
    for size in report.sizes:
        for run in size.runs:
            assert size.runs[0].objective <= run.objective * 1.001
            assert run.worst_pair is None or run.worst_pair <= 1.01


def test_the_report_is_plain_data(report):
    assert json.loads(json.dumps(asdict(report)))["sizes"][0]["size"]["dimension"] == 4


def test_nothing_to_repeat_is_an_error():
    with pytest.raises(UserError, match="repeats=0"):
        bench_inference([Size(4, 5, 8)], repeats=0)


def test_digits_fit_the_range_the_paper_asks_for():
    points = project_digits(6)
    assert points.shape == (5000, 6)
    assert ((points.abs() <= 1).double().mean()) > 0.95


def test_learning_makes_the_operators_explain_pairs_better():
    untrained = learn_operators(6, 4, n_steps=1)
    trained = learn_operators(6, 4, n_steps=200)
    z0, z1 = trained.draw_pairs(200, torch.Generator().manual_seed(9))

    def objective(problem):
        found = infer_coefficients(problem.operators, z0, z1, sparsity_weight=0.05)
        return float(found.objective.mean())

    assert objective(trained) < 0.97 * objective(untrained)


def test_more_iterations_mean_more_operations():
    problem = learn_operators(4, 5, n_steps=1)
    z0, z1 = problem.draw_pairs(30, torch.Generator().manual_seed(1))
    found = infer_coefficients(problem.operators, z0, z1, sparsity_weight=0.01)
    flops = count_flops(problem.operators, found)
    least = 2 * 2 * 5 * 16 * int(found.iterations.sum())
    assert least < flops < 20 * least


def test_the_peak_is_at_least_a_gigaflop():
    assert measure_peak(1, repeats=1) > 1e9


def test_the_sweep_has_near_and_far_pairs_and_blocks():
    report = bench_inference([], repeats=1, sweep=QUICK_SWEEP)
    assert [(p.size.dimension, p.size.n_blocks, p.distance) for p in report.sweep] == [
        (10, 1, "near"),
        (10, 1, "far"),
        (48, 3, "near"),
        (48, 3, "far"),
    ]
    for point in report.sweep:
        assert point.seconds < point.reference_seconds
        assert point.objective_ratio <= 1.001
        assert point.converged == 1
    assert json.loads(json.dumps(asdict(report)))["sweep"][0]["distance"] == "near"
