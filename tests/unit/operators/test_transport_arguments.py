"""What transport does with unusual, exported and mistaken arguments."""

from importlib import import_module

import pytest
import torch

from transop.errors import UserError
from transop.operators import transport, transport_path
from transop.operators.series import build_generator, plan_series


def small_flow(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(3, 4, 4, generator=generator, dtype=dtype) / 4
    coefficients = torch.randn(5, 3, generator=generator, dtype=dtype)
    return operators, coefficients, torch.randn(5, 4, generator=generator, dtype=dtype)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", ["operators", "coefficients", "points"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_input_is_an_error_that_names_the_argument(name, bad):
    arguments = dict(zip(("operators", "coefficients", "points"), small_flow(), strict=True))
    arguments[name].view(-1)[1] = bad
    with pytest.raises(UserError, match=f"{name} has 1 non-finite entries"):
        transport(**arguments)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operators": torch.zeros(4, 4)}, r"operators has shape \(4, 4\)"),
        ({"coefficients": torch.zeros(5, 2)}, "there are 3 operators"),
        ({"points": torch.zeros(5, 3)}, "the operators act on 4 dimensions"),
        ({"points": torch.zeros(5, 4).double()}, "convert one with"),
        ({"points": torch.zeros(5, 4, dtype=torch.int64)}, r"convert it with \.float"),
        ({"method": "pade"}, "method = 'pade' is unknown; choose"),
        ({"n_terms": 0}, "n_terms = 0"),
    ],
)
def test_shapes_types_and_names_that_do_not_fit_are_explained(change, message):
    operators, coefficients, points = small_flow()
    arguments = {"operators": operators, "coefficients": coefficients, "points": points} | change
    with pytest.raises(UserError, match=message):
        transport(**arguments)


def test_a_path_at_no_times_is_empty_and_times_must_be_finite():
    assert transport_path(*small_flow(), torch.zeros(0)).shape == (5, 0, 4)
    with pytest.raises(UserError, match="times has 1 non-finite"):
        transport_path(*small_flow(), torch.tensor([0.0, torch.nan]))


def test_a_generator_beyond_the_type_is_named_instead_of_looping_for_ever():
    operators, coefficients, points = small_flow()
    with pytest.raises(UserError, match=r"exceed what torch\.float32 can hold"):
        transport(operators * 1e30, coefficients * 1e30, points)


def test_a_fixed_series_agrees_with_the_adaptive_one():
    operators, coefficients, points = small_flow(torch.float64)
    fixed = transport(operators, coefficients, points, n_terms=18, n_steps=2)
    torch.testing.assert_close(fixed, transport(operators, coefficients, points))


@pytest.mark.usefixtures("as_users_run_it")
def test_a_fixed_series_can_be_exported_with_any_batch_size():
    operators, coefficients, points = small_flow()

    class Mover(torch.nn.Module):
        def forward(self, coefficients, points):
            return transport(operators, coefficients, points, n_terms=12)

    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(
        Mover(), (coefficients, points), dynamic_shapes=({0: batch}, {0: batch})
    )
    doubled = torch.cat([coefficients, -coefficients]), torch.cat([points, points])
    torch.testing.assert_close(program.module()(*doubled), transport(operators, *doubled))


def test_without_gradients_a_huge_batch_is_moved_in_chunks(monkeypatch):
    operators, coefficients, points = small_flow(torch.float64)
    whole = transport(operators, coefficients, points)
    monkeypatch.setattr(import_module("transop.operators.transport"), "_CHUNK_ENTRIES", 32)
    torch.testing.assert_close(transport(operators, coefficients, points), whole)
    shared = transport(operators, coefficients, points[:1])
    torch.testing.assert_close(shared[0], whole[0])


def test_without_gradients_many_paths_are_followed_in_chunks(monkeypatch):
    operators, coefficients, points = small_flow(torch.float64)
    times = torch.tensor([0.0, 1.5], dtype=torch.float64)
    whole = transport_path(operators, coefficients, points, times)
    module, held = import_module("transop.operators.transport"), []

    def build(operators, coefficients):
        held.append(len(coefficients))
        return build_generator(operators, coefficients)

    monkeypatch.setattr(module, "_CHUNK_ENTRIES", 2 * operators.shape[-1] ** 2)
    monkeypatch.setattr(module, "build_generator", build)
    torch.testing.assert_close(transport_path(operators, coefficients, points, times), whole)
    assert max(held) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", [0.0, 1e-6, 0.5, 2.0, 7.3, 50.0])
def test_the_planned_remainder_is_below_round_off(norm, dtype):
    plan = plan_series(norm, dtype)
    step = torch.tensor(norm / plan.n_steps, dtype=torch.float64)
    orders = torch.arange(plan.n_terms + 1, plan.n_terms + 60, dtype=torch.float64)
    remainder = (orders * step.log() - torch.lgamma(orders + 1)).exp().sum()
    assert float(remainder) <= torch.finfo(dtype).eps
    assert float(step) <= 2.0
