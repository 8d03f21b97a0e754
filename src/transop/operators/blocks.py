"""Block-diagonal operators: each block is a flow of its own, so nothing larger is ever built."""

import torch
from jaxtyping import Float
from torch import Tensor

_FEWEST_DIMENSIONS = 32  # smaller matrices are not worth cutting up
_SMALLEST_BLOCK = 8


def block_size(operators: Float[Tensor, "m d d"]) -> int:
    """Find the smallest size of equal diagonal blocks outside which all operators are zero.

    Returns:
        The size, at least 8; the dimension itself for operators that are not block diagonal, and
        for those on fewer than 32 dimensions.
    """
    d = operators.shape[-1]
    if d < _FEWEST_DIMENSIONS or bool(operators[:, [0, -1], [-1, 0]].any()):
        return max(1, d)  # two blocks or more would leave both corners zero
    rows, columns = torch.nonzero((operators != 0).any(0), as_tuple=True)
    for size in range(_SMALLEST_BLOCK, d // 2 + 1):
        if d % size == 0 and bool((rows // size == columns // size).all()):
            return size
    return d


def block_slices(operators: Float[Tensor, "m d d"]) -> list[slice]:
    """List the dimensions of every diagonal block; a single one if there are no blocks."""
    d, size = operators.shape[-1], block_size(operators)
    return [slice(start, start + size) for start in range(0, max(1, d), size)]
