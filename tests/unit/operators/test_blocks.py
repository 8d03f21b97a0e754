"""Block-diagonal operators: found, and treated block by block, with the same numbers."""

import sys

import pytest
import torch

from transop.learning.step import real_part_gradient
from transop.operators import (
    block_size,
    data_gradient,
    eigenvalues,
    transport,
    transport_jacobian,
    transport_path,
)

BLOCKED_MODULES = (
    "transop.operators.transport",
    "transop.operators.derivatives",
    "transop.operators.stability",
)


def block_diagonal(n_operators=3, n_blocks=4, size=10):
    generator = torch.Generator().manual_seed(0)
    operators = torch.zeros(n_operators, n_blocks * size, n_blocks * size, dtype=torch.float64)
    for b in range(n_blocks):
        part = slice(b * size, (b + 1) * size)
        operators[:, part, part] = 0.2 * torch.randn(
            n_operators, size, size, generator=generator, dtype=torch.float64
        )
    return operators


def test_the_size_of_blocks_is_found():
    assert block_size(block_diagonal(n_blocks=4, size=10)) == 10
    assert block_size(torch.ones(2, 40, 40)) == 40
    mixed = block_diagonal(n_blocks=4, size=10)
    mixed[0, 5, 15] = 1  # joins the first two blocks
    assert block_size(mixed) == 20
    mixed[0, 15, 25] = 1  # and the third to them: what is left cannot be cut evenly
    assert block_size(mixed) == 40
    assert block_size(torch.zeros(2, 6, 6)) == 6


@pytest.mark.parametrize("name", ["transport", "path", "jacobian", "real parts"])
def test_blocks_change_no_number(name, monkeypatch):
    operators = block_diagonal()
    c, z0 = (torch.randn(5, n, dtype=torch.float64) for n in (3, 40))
    compute = {
        "transport": lambda: (transport(operators, c, z0),),
        "path": lambda: (transport_path(operators, c, z0, torch.tensor([0.5, 2.0])),),
        "jacobian": lambda: transport_jacobian(operators, c, z0),
        "real parts": lambda: (eigenvalues(operators).real.sort(-1).values,),
    }[name]
    by_blocks = compute()
    for module in BLOCKED_MODULES:
        # By name: `transop.operators.transport` is the function of that name.
        monkeypatch.setattr(sys.modules[module], "block_slices", lambda matrices: [slice(None)])
    for one, other in zip(by_blocks, compute(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_gradient_within_blocks_is_the_whole_one_inside_them_and_zero_outside():
    operators = block_diagonal()
    c, z0, z1 = (torch.randn(5, n, dtype=torch.float64) for n in (3, 40, 40))
    data, whole = data_gradient(operators, c, z0, z1)
    same, within = data_gradient(operators, c, z0, z1, within_blocks=True)
    torch.testing.assert_close(same, data)
    torch.testing.assert_close(within, whole * (operators != 0))
    assert (whole[operators == 0] != 0).any()


def test_the_gradient_of_real_parts_stays_within_blocks():
    operators = block_diagonal()
    gradient = real_part_gradient(operators)
    assert (gradient[:, :10, :10] != 0).any()
    assert (gradient[operators == 0] == 0).all()
    first = real_part_gradient(operators[:, :10, :10])
    torch.testing.assert_close(gradient[:, :10, :10], first)
