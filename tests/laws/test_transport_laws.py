"""The laws of a one-parameter group, which transport must obey for any operators."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transop.operators import transport, transport_path


def random_flow(seed=0, *, n_operators=3, dimension=5, batch=(4,), norm=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    operators = torch.randn(n_operators, dimension, dimension, generator=generator, dtype=dtype)
    operators /= torch.linalg.vector_norm(operators, dim=(1, 2), keepdim=True)
    coefficients = torch.randn(*batch, n_operators, generator=generator, dtype=dtype)
    coefficients *= norm / coefficients.abs().sum(-1, keepdim=True)
    points = torch.randn(*batch, dimension, generator=generator, dtype=dtype)
    return operators, coefficients, points


flows = st.builds(
    random_flow,
    st.integers(0, 2**31),
    n_operators=st.integers(1, 6),
    dimension=st.integers(1, 20),
    batch=st.sampled_from([(), (1,), (3,), (2, 3)]),
    norm=st.floats(1e-6, 50.0),
)


@given(flows)
@settings(max_examples=40, deadline=None)
def test_action_and_dense_exponential_agree_at_every_shape_and_scale(flow):
    dense = transport(*flow, method="dense")
    scale = dense.abs().max() + flow[2].abs().max()
    torch.testing.assert_close(transport(*flow) / scale, dense / scale, rtol=0, atol=1e-11)


@given(flows)
@settings(max_examples=25, deadline=None)
def test_float32_agrees_with_float64_to_its_own_precision(flow):
    exact = transport(*flow)
    single = transport(*(tensor.float() for tensor in flow)).double()
    growth = torch.linalg.matrix_norm(
        torch.linalg.matrix_exp(torch.einsum("...m,mij->...ij", flow[1], flow[0])), 2
    )
    norm = flow[1].abs().sum(-1) + 1
    bound = 1e-6 * norm * growth * torch.linalg.vector_norm(flow[2], dim=-1)
    # Rounding the inputs alone moves the result by norm * growth * eps, squared when not normal.
    assert bool(((single - exact).norm(dim=-1) <= bound * growth.clamp_min(1)).all())


def test_zero_coefficients_leave_every_point_where_it_is():
    operators, coefficients, points = random_flow()
    torch.testing.assert_close(
        transport(operators, torch.zeros_like(coefficients), points), points, rtol=0, atol=0
    )


def test_zero_operators_and_an_empty_dictionary_move_nothing():
    operators, coefficients, points = random_flow()
    assert torch.equal(transport(torch.zeros_like(operators), coefficients, points), points)
    assert torch.equal(transport(operators[:0], coefficients[:, :0], points), points)


@pytest.mark.parametrize("norm", [0.3, 3.0, 20.0])
def test_negated_coefficients_undo_the_move(norm):
    operators, coefficients, points = random_flow(norm=norm)
    there = transport(operators, coefficients, points)
    back = transport(operators, -coefficients, there)
    torch.testing.assert_close(back, points, rtol=1e-8, atol=1e-8)


def test_two_half_moves_make_the_whole_move():
    operators, coefficients, points = random_flow(norm=4.0)
    halfway = transport(operators, 0.5 * coefficients, points)
    torch.testing.assert_close(
        transport(operators, 0.5 * coefficients, halfway),
        transport(operators, coefficients, points),
    )


def test_commuting_operators_compose_by_adding_coefficients():
    operators, _, points = random_flow(n_operators=1, norm=2.0)
    operators = torch.stack([operators[0], operators[0] @ operators[0]])
    first, second = torch.full((4, 2), 0.7).double(), torch.tensor([-0.2, 0.4]).double()
    composed = transport(operators, second.expand(4, 2), transport(operators, first, points))
    torch.testing.assert_close(composed, transport(operators, first + second, points))


def test_a_batch_equals_a_loop_over_its_rows():
    operators, coefficients, points = random_flow(batch=(2, 3))
    whole = transport(operators, coefficients, points)
    for i in range(2):
        for j in range(3):
            alone = transport(operators, coefficients[i, j], points[i, j])
            torch.testing.assert_close(whole[i, j], alone)


def test_a_batch_of_one_keeps_its_axis_and_an_empty_batch_stays_empty():
    operators, coefficients, points = random_flow(batch=(1,))
    assert transport(operators, coefficients, points).shape == (1, 5)
    assert transport(operators, coefficients[:0], points[:0]).shape == (0, 5)
    assert transport(operators, coefficients[:0], points[:0], method="dense").shape == (0, 5)


@pytest.mark.parametrize("method", ["action", "dense"])
def test_one_row_of_coefficients_moves_many_points_alike(method):
    operators, coefficients, points = random_flow(batch=(7,))
    shared = transport(operators, coefficients[0], points, method=method)
    repeated = transport(operators, coefficients[:1].expand(7, -1), points, method=method)
    torch.testing.assert_close(shared, repeated)


def test_a_path_passes_through_the_moves_of_every_time():
    operators, coefficients, points = random_flow(batch=(2, 3), norm=3.0)
    times = torch.tensor([0.0, 0.5, 1.0, 2.5, -1.0], dtype=torch.float64)
    path = transport_path(operators, coefficients, points, times)
    assert path.shape == (2, 3, 5, 5)
    for index, time in enumerate(times):
        torch.testing.assert_close(
            path[:, :, index], transport(operators, time * coefficients, points)
        )


def test_a_very_long_path_still_agrees_with_the_dense_exponential():
    operators, coefficients, points = random_flow(norm=2.0)
    rotation = operators - operators.mT
    times = torch.tensor([40.0, 100.0], dtype=torch.float64)
    path = transport_path(rotation, coefficients, points, times)
    moved = transport(rotation, 100 * coefficients, points, method="dense")
    torch.testing.assert_close(path[:, 1], moved, rtol=1e-9, atol=1e-9)
