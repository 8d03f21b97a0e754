"""The learnable dictionary: how it starts, what it reports, how blocks stay blocks."""

import pytest
import torch

from transop.errors import UserError
from transop.inference import infer_coefficients
from transop.operators import TransportOperators, data_gradient, transport


def test_operators_begin_with_unit_norm():
    dictionary = TransportOperators(6, 5)
    torch.testing.assert_close(dictionary.magnitudes(), torch.ones(6))


def test_the_same_seed_draws_the_same_operators():
    def draw(seed):
        return TransportOperators(3, 4, generator=torch.Generator().manual_seed(seed)).weight

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_living_operators_are_those_above_the_threshold():
    dictionary = TransportOperators(3, 4)
    with torch.no_grad():
        dictionary.weight[1] *= 0.04
    assert dictionary.living().tolist() == [True, False, True]
    assert dictionary.living(threshold=0.03).tolist() == [True, True, True]


def test_an_empty_dictionary_moves_nothing():
    dictionary = TransportOperators(0, 4)
    points = torch.ones(2, 4)
    assert torch.equal(transport(dictionary.operators, torch.zeros(2, 0), points), points)


@pytest.mark.parametrize("layout", ["one-per-operator", "diagonal"])
def test_blocks_never_mix_even_after_training_steps(layout):
    dictionary = TransportOperators(4, 6, n_blocks=2, block_layout=layout)
    optimiser = torch.optim.Adam(dictionary.parameters(), lr=0.1)
    z0, z1 = torch.randn(8, 6), torch.randn(8, 6)
    coefficients = torch.randn(8, 4)
    for _ in range(3):
        _, gradient = data_gradient(dictionary.operators.detach(), coefficients, z0, z1)
        assert bool(gradient[:, :3, 3:].any())
        dictionary.set_gradient(gradient)
        optimiser.step()
    operators = dictionary.operators
    assert not operators[:, :3, 3:].any()
    assert not operators[:, 3:, :3].any()
    if layout == "one-per-operator":
        assert not operators[0::2, 3:, 3:].any()
        assert not operators[1::2, :3, :3].any()
    assert bool((dictionary.magnitudes() > 0).all())


def test_operators_of_different_blocks_commute_and_are_inferred_like_any_other():
    dictionary = TransportOperators(2, 6, n_blocks=2).double()
    operators = dictionary.operators.detach()
    z0 = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)).double()
    first = torch.tensor([0.4, 0.0]).double().expand(5, 2)
    second = torch.tensor([0.0, -0.3]).double().expand(5, 2)
    z1 = transport(operators, second, transport(operators, first, z0))
    torch.testing.assert_close(z1, transport(operators, first, transport(operators, second, z0)))
    found = infer_coefficients(operators, z0, z1, sparsity_weight=1e-7, tolerance=1e-10)
    torch.testing.assert_close(found.coefficients, first + second, rtol=1e-4, atol=1e-5)


def test_saved_weights_load_into_a_dictionary_of_the_same_shape():
    one = TransportOperators(4, 6, n_blocks=3)
    other = TransportOperators(4, 6, n_blocks=3, generator=torch.Generator().manual_seed(9))
    other.load_state_dict(one.state_dict())
    assert set(one.state_dict()) == {"weight"}
    assert torch.equal(one.operators, other.operators)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_operators": -1}, "n_operators = -1"),
        ({"n_blocks": 4}, "n_blocks = 4 does not divide dimension = 6"),
        ({"block_layout": "ring", "n_blocks": 2}, "block_layout = 'ring' is unknown"),
    ],
)
def test_impossible_dictionaries_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        TransportOperators(**({"n_operators": 3, "dimension": 6} | arguments))
