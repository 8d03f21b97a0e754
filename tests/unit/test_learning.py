"""Learning operators from tensors alone, and choosing the objective from the data."""

import pytest
import torch

import transop
from transop.errors import UserError
from transop.learning import Objective, OperatorStep, measure_paths
from transop.operators import TransportOperators, largest_real_part, transport


def rotated(n=400, dimension=4, *, noise=0.0, seed=0):
    """Points, and the same points turned in the plane of the first two dimensions."""
    generator = torch.Generator().manual_seed(seed)
    plane = torch.zeros(1, dimension, dimension)
    plane[0, 0, 1], plane[0, 1, 0] = -1.0, 1.0
    z0 = torch.randn(n, dimension, generator=generator)
    z1 = transport(plane, 0.5 * torch.randn(n, 1, generator=generator), z0)
    return z0, z1 + noise * torch.randn(n, dimension, generator=generator)


QUICK = {"n_steps": 60, "batch_size": 50, "learning_rate": 0.03, "sparsity_weight": 0.01}


def test_the_result_carries_its_evidence():
    z0, z1 = rotated()
    seen = []
    learned = transop.learn_operators(
        7 * z0, 7 * z1, 3, **QUICK, callback=lambda *step: seen.append(step)
    )
    assert learned.operators.shape == (3, 4, 4)
    assert not learned.operators.requires_grad
    assert learned.history.tolist() == pytest.approx([value for _, value in seen])
    assert [step for step, _ in seen] == list(range(60))
    assert learned.history[-10:].mean() < 0.5 * learned.history[:10].mean()
    lengths = torch.cat([z0, z1]).norm(dim=1).mean()
    assert learned.latent_scale == pytest.approx(7 * float(lengths), rel=1e-5)
    assert learned.sparsity_weight == pytest.approx(0.01 * learned.latent_scale**2)
    assert learned.objective.operator_decay == pytest.approx(0.01 / 500)
    assert 0 < learned.paths.covered <= 1
    assert 0 < learned.paths.nonzeros <= 3
    assert learned.living.dtype == torch.bool


def test_the_unit_of_the_vectors_changes_nothing():
    z0, z1 = rotated()
    one = transop.learn_operators(z0, z1, 2, **QUICK)
    other = transop.learn_operators(16 * z0, 16 * z1, 2, **QUICK)
    torch.testing.assert_close(one.operators, other.operators)


def test_the_same_generator_gives_the_same_operators_and_global_randomness_is_left_alone():
    z0, z1 = rotated()
    state = torch.random.get_rng_state()
    runs = [
        transop.learn_operators(
            z0, z1, 2, **QUICK, generator=torch.Generator().manual_seed(seed)
        ).operators
        for seed in (1, 1, 2)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert torch.equal(state, torch.random.get_rng_state())


def test_learning_continues_from_given_operators():
    z0, z1 = rotated()
    first = transop.learn_operators(z0, z1, 2, **QUICK)
    more = transop.learn_operators(z0, z1, 2, **QUICK, initial=first.operators)
    assert more.history[:5].mean() < 0.5 * first.history[:5].mean()


def test_blocks_are_not_mixed():
    z0, z1 = rotated()
    learned = transop.learn_operators(z0, z1, 2, **QUICK, n_blocks=2, block_layout="diagonal")
    assert (learned.operators[:, :2, 2:] == 0).all()
    assert (learned.operators[:, 2:, :2] == 0).all()
    assert (learned.operators[:, :2, :2] != 0).any()
    assert (learned.operators[:, 2:, 2:] != 0).any()


def test_a_run_that_is_still_falling_is_not_called_converged():
    z0, z1 = rotated()
    hasty = transop.learn_operators(z0, z1, 2, sparsity_weight=1e-3, n_steps=10, learning_rate=0.05)
    assert not hasty.converged
    patient = transop.learn_operators(
        z0, z1, 2, sparsity_weight=1e-3, operator_decay=1e-3, n_steps=400, learning_rate=0.05
    )
    assert patient.converged


def test_the_step_descends_on_the_whole_objective():
    z0, z1 = rotated(100)
    step = OperatorStep(TransportOperators(2, 4), Objective(0.01, 0.02, 0.3, 0.1))
    coefficients, losses, gradient = step.differentiate(z0, z1)
    torch.testing.assert_close(losses, step.data_term(coefficients, z0, z1))
    before = float(losses.mean()) + step.penalty()
    step.descend(gradient, 1e-3)
    assert float(step.data_term(coefficients, z0, z1).mean()) + step.penalty() < before


def test_the_data_choose_weights_with_which_paths_cover_half_the_distance():
    z0, z1 = rotated(400, 6)
    learned = transop.learn_operators(z0, z1, 4, n_steps=150)
    assert 0.4 < learned.paths.covered < 0.9
    assert learned.paths.nonzeros < 2
    assert learned.objective.operator_decay > 0


def test_chosen_weights_do_not_depend_on_the_unit_of_the_vectors():
    z0, z1 = rotated(300)
    one, other = (transop.choose_objective(k * z0, k * z1, 3, n_steps=40) for k in (1, 64))
    assert one == other


def test_pairs_that_differ_by_noise_do_not_use_every_operator():
    generator = torch.Generator().manual_seed(0)
    z0 = torch.randn(500, 12, generator=generator)
    z1 = z0 + 2 * torch.randn(500, 12, generator=generator)
    chosen = transop.choose_objective(z0, z1, 8, covered=0.95, n_steps=60)
    learned = transop.learn_operators(z0, z1, 8, n_steps=60, **vars(chosen))
    assert learned.paths.nonzeros < 0.6 * 8


def test_real_parts_are_penalised_unless_the_paths_need_them(monkeypatch):
    monkeypatch.setattr("transop.learning.learn._TOLERANCE", 0.05)
    monkeypatch.setattr("transop.learning.learn._PENALTY_SHARE", 3.0)
    z0, z1 = rotated(300)
    assert transop.choose_objective(z0, z1, 3).real_part_penalty > 0
    growing = torch.randn(300, 1, generator=torch.Generator().manual_seed(1)).mul(0.5).exp() * z0
    assert transop.choose_objective(z0, growing, 3).real_part_penalty == 0


def test_path_statistics_of_known_paths():
    plane = torch.zeros(1, 2, 2)
    plane[0, 0, 1], plane[0, 1, 0] = -1.0, 1.0
    z0 = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    z1 = transport(plane, torch.tensor([[0.3], [-0.2], [0.0]]), z0)
    paths = measure_paths(plane, z0, z1, sparsity_weight=1e-6)
    assert paths.covered == pytest.approx(1, abs=1e-3)  # the pair of equal points is left out
    assert paths.nonzeros == pytest.approx(2 / 3)
    assert paths.without_path == pytest.approx(1 / 3)
    assert paths.mean_coefficient == pytest.approx(0.25, abs=1e-3)
    assert paths.growth == pytest.approx(1, abs=1e-3)
    grown = measure_paths(torch.eye(2)[None], z0, 2 * z0, sparsity_weight=1e-6)
    assert grown.growth == pytest.approx(8, rel=1e-2)
    assert grown.largest_real_part == pytest.approx(float(largest_real_part(torch.eye(2)[None])))


NAN = torch.full((3, 2), torch.nan)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((torch.ones(3, 2), torch.ones(2, 2), 1), {}, r"z0 has shape \(3, 2\) and z1 \(2, 2\)"),
        ((torch.ones(0, 2), torch.ones(0, 2), 1), {}, "at least one pair"),
        ((torch.ones(3, 2), NAN, 1), {}, "z1 has 6 non-finite entries"),
        ((torch.ones(3, 2).int(), torch.ones(3, 2).int(), 1), {}, "convert it with .float"),
        ((torch.ones(3, 2), torch.ones(3, 2), 1), {}, "z0 and z1 are equal in every pair"),
        ((torch.ones(3, 2), torch.zeros(3, 2), 0), {}, "n_operators = 0 must be"),
        ((torch.ones(3, 2), torch.zeros(3, 2), 1), {"n_steps": 0}, "n_steps = 0"),
        ((torch.ones(3, 2), torch.zeros(3, 2), 1), {"latent_scale": 0.0}, "latent_scale = 0.0"),
        ((torch.ones(3, 2), torch.zeros(3, 2), 1), {"learning_rate": -1.0}, "learning_rate = -1.0"),
        (
            (torch.ones(3, 2), torch.zeros(3, 2), 1),
            {"sparsity_weight": -1.0},
            "sparsity_weight = -1",
        ),
        ((torch.ones(3, 2), torch.zeros(3, 2), 1), {"n_blocks": 3}, "n_blocks = 3 does not divide"),
        (
            (torch.ones(3, 2), torch.zeros(3, 2), 1),
            {"initial": torch.ones(2, 2, 2)},
            r"\(1, 2, 2\)",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, options, words):
    with pytest.raises(UserError, match=words) as caught:
        transop.learn_operators(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_learning_does_not_wait_for_the_patient_back_end(monkeypatch):
    monkeypatch.setattr(
        "transop.inference.gauss_newton.solve_batched", lambda *_, **__: pytest.fail("waited")
    )
    generator = torch.Generator().manual_seed(0)
    copies = torch.randn(1, 4, 4, generator=generator).repeat(8, 1, 1)
    step = OperatorStep(TransportOperators(8, 4), Objective(1e-6, 0.0))
    step.operators.weight.data.copy_(copies + 1e-4 * torch.randn(8, 4, 4, generator=generator))
    z0, z1 = rotated(200, noise=1.0)
    assert torch.isfinite(step.infer(z0, 20 * z1)).all()
    with pytest.raises(pytest.fail.Exception, match="waited"):
        transop.infer_coefficients(
            step.operators.operators.detach(), z0, 20 * z1, sparsity_weight=1e-6
        )
