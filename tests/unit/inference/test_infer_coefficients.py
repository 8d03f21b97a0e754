"""What every solver goes through: arguments, guarantees, restarts, seeds."""

import warnings

import numpy as np
import pytest
import torch

from transop.errors import UserError
from transop.inference import (
    ConvergenceWarning,
    InferenceResult,
    infer_coefficients,
    objective,
)
from transop.operators import transport
from transop_paper.contenders import ALL_SOLVERS, CONTENDERS


def make_pairs(n_pairs=12, *, dimension=4, n_operators=3, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    operators = torch.randn(n_operators, dimension, dimension, generator=generator, dtype=dtype)
    operators /= torch.linalg.vector_norm(operators, dim=(1, 2), keepdim=True)
    coefficients = 0.6 * torch.randn(n_pairs, n_operators, generator=generator, dtype=dtype)
    z0 = torch.randn(n_pairs, dimension, generator=generator, dtype=dtype)
    noise = torch.randn(n_pairs, dimension, generator=generator, dtype=dtype)
    return operators, z0, transport(operators, coefficients, z0) + 0.05 * noise


every_solver = pytest.mark.parametrize("solver", ALL_SOLVERS.values(), ids=list(ALL_SOLVERS))


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_the_reported_objective_and_residual_are_those_of_the_coefficients(solver):
    operators, z0, z1 = make_pairs()
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.02, solver=solver, max_iterations=8
    )
    torch.testing.assert_close(
        found.objective, objective(operators, found.coefficients, z0, z1, 0.02)
    )
    missed = z1 - transport(operators, found.coefficients, z0)
    torch.testing.assert_close(found.residual, missed.norm(dim=-1) / z1.norm(dim=-1))


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_type_given_and_no_gradient(solver, dtype):
    operators, z0, z1 = make_pairs(3, dtype=dtype)
    operators.requires_grad_()
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.05, solver=solver, max_iterations=5
    )
    assert found.coefficients.dtype == found.objective.dtype == found.residual.dtype == dtype
    assert found.converged.dtype == torch.bool
    assert found.iterations.dtype == torch.int64
    assert not found.coefficients.requires_grad


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
@pytest.mark.parametrize("n_pairs", [0, 1])
def test_batches_of_none_and_one_keep_their_shape(solver, n_pairs):
    operators, z0, z1 = make_pairs(n_pairs)
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.05, solver=solver, max_iterations=5
    )
    assert found.coefficients.shape == (n_pairs, 3)
    assert found.objective.shape == found.converged.shape == found.iterations.shape == (n_pairs,)


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_one_pair_alone_gives_what_it_gives_in_a_batch(solver):
    operators, z0, z1 = make_pairs(6)
    start = torch.zeros(6, 3, dtype=z0.dtype)
    options = {"sparsity_weight": 0.05, "solver": solver, "max_iterations": 6}
    together = infer_coefficients(operators, z0, z1, initial=start, **options)
    alone = infer_coefficients(operators, z0[2:3], z1[2:3], initial=start[2:3], **options)
    torch.testing.assert_close(alone.coefficients[0], together.coefficients[2])
    assert alone.iterations[0] == together.iterations[2]


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_dead_operators_and_an_empty_dictionary_get_no_coefficients(solver):
    operators, z0, z1 = make_pairs()
    operators[1] = 0
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.05, solver=solver, max_iterations=25
    )
    # Plain subgradient steps shrink a useless coefficient but never make it exactly zero.
    assert float(found.coefficients[:, 1].abs().max()) < 0.05
    nothing = infer_coefficients(operators[:0], z0, z1, sparsity_weight=0.05, solver=solver)
    assert nothing.coefficients.shape == (12, 0)
    torch.testing.assert_close(nothing.objective, (z1 - z0).square().sum(-1) / 2)


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_nothing_is_ever_worse_than_standing_still_or_not_finite(solver):
    operators, z0, z1 = make_pairs(8, dtype=torch.float32)
    for scale in (1e-4, 30.0, 1e3):
        found = infer_coefficients(
            operators * scale, z0, -5 * z1, sparsity_weight=1e-3, solver=solver, max_iterations=4
        )
        assert bool(torch.isfinite(found.coefficients).all())
        still = (-5 * z1 - z0).square().sum(-1) / 2
        assert bool((found.objective <= still).all())


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_a_hopeless_warm_start_does_no_harm(solver):
    operators, z0, z1 = make_pairs(4, dtype=torch.float32)
    start = torch.full((4, 3), 1e6)
    found = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.01, solver=solver, initial=start, max_iterations=20
    )
    assert bool((found.objective <= (z1 - z0).square().sum(-1) / 2).all())


def test_a_huge_sparsity_weight_makes_every_coefficient_zero():
    operators, z0, z1 = make_pairs()
    found = infer_coefficients(operators, z0, z1, sparsity_weight=1e3)
    assert not found.coefficients.any()
    assert bool(found.converged.all())


def test_the_weight_may_differ_per_operator_and_per_pair():
    operators, z0, z1 = make_pairs()
    scalar = infer_coefficients(operators, z0, z1, sparsity_weight=0.05).coefficients
    row = torch.full((3,), 0.05, dtype=z0.dtype)
    torch.testing.assert_close(
        infer_coefficients(operators, z0, z1, sparsity_weight=row).coefficients, scalar
    )
    row[1] = 1e3
    table = row.repeat(12, 1)
    table[5] = 0.05
    found = infer_coefficients(operators, z0, z1, sparsity_weight=table).coefficients
    torch.testing.assert_close(found[5], scalar[5])
    others = torch.arange(12) != 5
    assert not found[others, 1].any()


def test_a_warm_start_at_the_solution_is_recognised_at_once():
    operators, z0, z1 = make_pairs()
    first = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, tolerance=1e-10)
    again = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, initial=first.coefficients)
    assert int(again.iterations.max()) <= 1
    torch.testing.assert_close(again.objective, first.objective)


def rugged_pairs():
    """Pairs half a turn and more apart: a start at zero ends in a poor minimum for some."""
    turn = torch.zeros(2, 4, 4, dtype=torch.float64)
    turn[0, 0, 1], turn[0, 1, 0] = -3.0, 3.0
    turn[1, 2, 3], turn[1, 3, 2] = -7.0, 7.0
    generator = torch.Generator().manual_seed(3)
    z0 = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    c = 2 * torch.rand(20, 2, generator=generator, dtype=torch.float64) - 1
    return turn + 0.1, z0, transport(turn + 0.1, c, z0)


@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_restarts_never_lose_and_keep_the_best_pair_by_pair():
    operators, z0, z1 = rugged_pairs()
    once = infer_coefficients(operators, z0, z1, sparsity_weight=1e-3)
    often = infer_coefficients(operators, z0, z1, sparsity_weight=1e-3, restarts=4)
    assert bool((often.objective <= once.objective).all())
    improved = often.objective < 0.9 * once.objective
    assert bool(improved.any())
    assert not bool(improved.all())


@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_the_same_seed_gives_the_same_answer_and_another_seed_may_not():
    operators, z0, z1 = rugged_pairs()

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        return infer_coefficients(
            operators, z0, z1, sparsity_weight=1e-3, restarts=3, generator=generator
        ).coefficients

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


@every_solver
@pytest.mark.filterwarnings("ignore::transop.inference.ConvergenceWarning")
def test_the_global_random_state_is_left_alone(solver):
    operators, z0, z1 = make_pairs(2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    infer_coefficients(
        operators, z0, z1, sparsity_weight=0.05, solver=solver, restarts=2, max_iterations=3
    )
    assert torch.equal(torch.get_rng_state(), before)


@every_solver
def test_pairs_that_run_out_of_iterations_are_marked_and_warned_about(solver):
    operators, z0, z1 = make_pairs()
    with pytest.warns(ConvergenceWarning, match=r"of 12 pairs did not converge"):
        found = infer_coefficients(
            operators, z0, z1, sparsity_weight=0.01, solver=solver, max_iterations=1
        )
    assert not bool(found.converged.all())


def test_a_large_batch_is_solved_in_chunks_with_the_same_answer(monkeypatch):
    from transop.inference import problem as module

    operators, z0, z1 = make_pairs(20)
    whole = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, backend="torch")
    original = module.solve_in_chunks

    def in_small_chunks(solve, problem, *per_pair, entries_per_pair, entries=0):
        return original(solve, problem, *per_pair, entries_per_pair=1, entries=7)

    monkeypatch.setattr("transop.inference.gauss_newton_torch.solve_in_chunks", in_small_chunks)
    pieces = infer_coefficients(operators, z0, z1, sparsity_weight=0.02, backend="torch")
    torch.testing.assert_close(pieces.coefficients, whole.coefficients)
    assert torch.equal(pieces.iterations, whole.iterations)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "newton"}, "solver = 'newton' is unknown; choose from"),
        ({"restarts": 0}, "restarts = 0 must be a whole number from 1 to 10000"),
        ({"solver": 3}, "solver = 3 is unknown"),
        ({"restarts": "2"}, "restarts = '2' must be a whole number"),
        ({"restarts": 2.0}, r"restarts = 2\.0 must be a whole number"),
        ({"restarts": True}, "restarts = True must be a whole number"),
        ({"max_iterations": -1}, "max_iterations = -1 must be a whole number from 1"),
        ({"max_iterations": 100.0}, r"max_iterations = 100\.0 must be a whole number"),
        ({"max_iterations": 2.5}, r"max_iterations = 2\.5 must be a whole number"),
        (
            {"max_iterations": np.float64(9)},
            r"max_iterations = np\.float64\(9\.0\) must be a whole",
        ),
        ({"max_iterations": float("inf")}, "max_iterations = inf must be a whole number"),
        ({"max_iterations": 2**63}, "= 9223372036854775808 must be .* to 1000000"),
        ({"max_iterations": 10**20}, "= 100000000000000000000 must be a whole number"),
        ({"tolerance": "1e-3"}, "tolerance = '1e-3' must be a positive number"),
        ({"tolerance": float("nan")}, "tolerance = nan must be a positive number"),
        ({"tolerance": float("inf")}, "tolerance = inf must be a positive number"),
        ({"tolerance": 10**400}, "is too large"),
        ({"tolerance": 1j}, "tolerance = 1j must be a positive number"),
        ({"backend": 3}, "backend=3 is unknown"),
        ({"generator": 3}, "generator = 3 must be a torch.Generator"),
        ({"sparsity_weight": "0.1"}, "sparsity_weight = '0.1' must be a finite number"),
        ({"sparsity_weight": None}, "sparsity_weight = None must be a finite number"),
        ({"sparsity_weight": float("nan")}, "sparsity_weight = nan must be a finite number"),
        ({"initial": np.zeros((12, 3))}, "initial = ndarray .* must be a torch.Tensor"),
        ({"z0": [[0.0]]}, "z0 = .* must be a torch.Tensor"),
        ({"z0": torch.zeros(12, 4, device="meta").double()}, "z0 is on the device 'meta'"),
        (
            {"z1": torch.zeros(12, 4).double().to_sparse()},
            "z1 is a sparse tensor; pass z1.to_dense",
        ),
        ({"operators": torch.tensor(1.0).double()}, "operators has shape"),
        ({"tolerance": 0.0}, r"tolerance = 0\.0 must be a positive number"),
        ({"step_size": 0.1}, "has no option 'step_size'"),
        ({"backend": "cuda"}, "backend='cuda' is unknown"),
        ({"sparsity_weight": -1.0}, r"sparsity_weight = -1\.0 must be .* from 0 on"),
        ({"sparsity_weight": torch.zeros(5).double()}, r"sparsity_weight has shape \(5,\)"),
        ({"initial": torch.zeros(2, 3).double()}, r"pass torch.float64 of shape \(12, 3\)"),
        ({"initial": torch.full((12, 3), torch.nan).double()}, "initial has 36 non-finite"),
        ({"z0": torch.zeros(4).double()}, r"z0 has shape \(4,\)"),
        ({"z1": torch.full((12, 4), torch.inf).double()}, "z1 has 48 non-finite entries"),
        ({"operators": torch.zeros(3, 4, 5).double()}, "operators has shape"),
        ({"operators": torch.zeros(3, 5, 5).double()}, "z0 has shape"),
        ({"operators": torch.zeros(3, 4, 4)}, "convert one with"),
    ],
)
def test_mistakes_are_answered_with_the_argument_and_the_remedy(change, message):
    operators, z0, z1 = make_pairs()
    arguments = {"operators": operators, "z0": z0, "z1": z1, "sparsity_weight": 0.1} | change
    with pytest.raises(UserError, match=message):
        infer_coefficients(**arguments)


def test_the_step_sizes_of_first_order_solvers_are_checked():
    operators, z0, z1 = make_pairs()
    with pytest.raises(UserError, match=r"decay = 1\.5 must be above 0, at most 1"):
        infer_coefficients(
            operators, z0, z1, sparsity_weight=0.1, solver=CONTENDERS["proximal"], decay=1.5
        )
    with pytest.raises(UserError, match="step_size = '1' must be positive"):
        infer_coefficients(
            operators, z0, z1, sparsity_weight=0.1, solver=CONTENDERS["proximal"], step_size="1"
        )


@pytest.mark.usefixtures("as_users_run_it")
def test_whole_numbers_and_reals_of_numpy_are_numbers_too():
    operators, z0, z1 = make_pairs(3)
    plain = infer_coefficients(
        operators, z0, z1, sparsity_weight=0.02, max_iterations=60, tolerance=1e-6, restarts=2
    )
    numpys = infer_coefficients(
        operators,
        z0,
        z1,
        sparsity_weight=np.float64(0.02),
        max_iterations=np.int64(60),
        tolerance=np.float64(1e-6),
        restarts=np.int32(2),
    )
    assert torch.equal(plain.coefficients, numpys.coefficients)


def test_a_solver_of_ones_own_is_checked_and_guarded_like_the_default():
    operators, z0, z1 = make_pairs(3)

    def guess(problem, initial, *, size=1.0):
        zeros = torch.zeros_like(problem.z0[:, 0])
        return InferenceResult(
            initial + size, zeros + 1e9, zeros, zeros.bool(), torch.zeros(3, dtype=torch.int64)
        )

    with pytest.warns(ConvergenceWarning, match="solver 'guess'"):
        found = infer_coefficients(operators, z0, z1, sparsity_weight=0.1, solver=guess, size=3.0)
    assert not found.coefficients.any()
    with pytest.raises(UserError, match="has no option 'depth'"):
        infer_coefficients(operators, z0, z1, sparsity_weight=0.1, solver=guess, depth=3)


def test_the_limit_holds_for_both_back_ends_together():
    generator = torch.Generator().manual_seed(0)
    operators = 4 * torch.randn(4, 6, 6, generator=generator)
    z0, z1 = torch.randn(2, 32, 6, generator=generator)
    for limit in (50, 60, 100):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = infer_coefficients(
                operators, z0, z1, sparsity_weight=1e-4, tolerance=1e-12, max_iterations=limit
            )
        assert int(found.iterations.max()) <= limit


def test_converged_results_raise_no_warning():
    operators, z0, z1 = make_pairs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer_coefficients(operators, z0, z1, sparsity_weight=0.02)


@pytest.mark.parametrize("weight", [0.0, 1e-7, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operators_that_are_almost_copies_do_not_keep_pairs_from_converging(dtype, weight):
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(1, 6, 6, generator=generator, dtype=torch.float64)
    operators = first + 0.02 * torch.randn(4, 6, 6, generator=generator, dtype=torch.float64)
    operators = (operators / operators.norm(dim=(1, 2), keepdim=True)).to(dtype)
    z0 = torch.randn(64, 6, generator=generator, dtype=torch.float64).to(dtype)
    z1 = z0 + 0.3 * torch.randn(64, 6, generator=generator, dtype=torch.float64).to(dtype)
    ours = infer_coefficients(operators, z0, z1, sparsity_weight=weight)
    patient = infer_coefficients(operators, z0, z1, sparsity_weight=weight, backend="torch")
    assert ours.converged.float().mean() > 0.95
    assert ours.objective.mean() <= 1.001 * patient.objective.mean()


def test_a_short_limit_is_not_made_up_for():
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(4, 6, 6, generator=generator)
    z0, z1 = torch.randn(2, 16, 6, generator=generator)
    with pytest.warns(ConvergenceWarning):
        result = infer_coefficients(operators, z0, z1, sparsity_weight=0.01, max_iterations=2)
    assert result.iterations.max() <= 2
