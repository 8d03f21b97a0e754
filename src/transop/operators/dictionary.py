"""The learnable dictionary of transport operators."""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transop.errors import UserError
from transop.inputs import check_choice, check_generator, check_whole

BlockLayout = Literal["one-per-operator", "diagonal"]

_MOST_OPERATORS = _MOST_DIMENSIONS = 100_000
_MOST_ENTRIES = 2**28  # 1 GiB in float32


class DictionaryError(UserError):
    """A dictionary of operators was asked for that cannot exist."""


class TransportOperators(nn.Module):
    """A dictionary of m generators acting on d latent dimensions.

    With ``n_blocks`` above one the latent space is cut into that many equal blocks and every
    entry that would mix two of them is zero and stays zero. The matrices keep their full size;
    transport, inference and learning find the blocks and work on each by itself.

    Entries are drawn from a Gaussian and scaled so that every operator has Frobenius norm 1.

    Differs from the paper: it states an initialisation variance, which that scaling undoes.

    Attributes:
        weight: the parameter, shape (m, d, d).
        n_operators: m.
        dimension: d.
        n_blocks: blocks the latent space is cut into.
    """

    mask: Tensor | None

    def __init__(
        self,
        n_operators: int,
        dimension: int,
        *,
        n_blocks: int = 1,
        block_layout: BlockLayout = "one-per-operator",
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the operators.

        Args:
            n_operators: m; zero is allowed and moves nothing.
            dimension: d, the size of the latent space.
            n_blocks: must divide ``dimension``.
            block_layout: ``"one-per-operator"`` gives operator i the block i modulo n_blocks;
                ``"diagonal"`` lets every operator act on all blocks, each within itself.
            generator: where the randomness comes from; a fixed seed if left out.
        """
        super().__init__()
        check_choice("block_layout", block_layout, ("one-per-operator", "diagonal"))
        check_generator(generator)
        n_operators, dimension, n_blocks = _check_sizes(n_operators, dimension, n_blocks)
        self.n_operators, self.dimension, self.n_blocks = n_operators, dimension, n_blocks
        mask = _block_mask(n_operators, dimension, n_blocks, block_layout)
        self.register_buffer("mask", None if n_blocks == 1 else mask, persistent=False)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        shape = (n_operators, dimension, dimension)
        entries = torch.randn(shape, generator=generator, device=generator.device).cpu() * mask
        norms = torch.linalg.vector_norm(entries, dim=(-2, -1), keepdim=True)
        self.weight = nn.Parameter(torch.div(entries, norms))

    @property
    def operators(self) -> Float[Tensor, "m d d"]:
        """The full matrices, zero outside their blocks."""
        return self.weight if self.mask is None else self.weight * self.mask

    @torch.no_grad()
    def magnitudes(self) -> Float[Tensor, " m"]:
        """Measure the Frobenius norm of every operator."""
        magnitudes: Tensor = torch.linalg.vector_norm(self.operators, dim=(-2, -1))
        return magnitudes

    def living(self, threshold: float = 0.05) -> Bool[Tensor, " m"]:
        """Tell which operators are still in use: those whose magnitude exceeds a threshold."""
        return self.magnitudes() > threshold

    @torch.no_grad()
    def set_gradient(self, gradient: Float[Tensor, "m d d"]) -> None:
        """Store a gradient computed without autograd where an optimiser will look for it."""
        kept = gradient if self.mask is None else gradient * self.mask
        self.weight.grad = kept.to(self.weight)

    def extra_repr(self) -> str:
        """Describe the sizes in ``repr``."""
        blocks = f", n_blocks={self.n_blocks}" if self.n_blocks > 1 else ""
        return f"n_operators={self.n_operators}, dimension={self.dimension}{blocks}"


def _check_sizes(n_operators: Any, dimension: Any, n_blocks: Any) -> tuple[int, int, int]:
    """Refuse numbers that no dictionary has, before anything is allocated."""
    n_operators = check_whole("n_operators", n_operators, least=0, most=_MOST_OPERATORS)
    dimension = check_whole("dimension", dimension, least=1, most=_MOST_DIMENSIONS)
    n_blocks = check_whole("n_blocks", n_blocks, least=1, most=_MOST_DIMENSIONS)
    if dimension % n_blocks:
        raise DictionaryError(
            f"n_blocks = {n_blocks} does not divide dimension = {dimension}; choose a divisor"
        )
    if n_operators * dimension**2 > _MOST_ENTRIES:
        raise DictionaryError(
            f"n_operators = {n_operators} matrices of dimension = {dimension} have more than "
            f"{_MOST_ENTRIES:,} entries; choose fewer operators or dimensions"
        )
    return n_operators, dimension, n_blocks


def _block_mask(n_operators: int, dimension: int, n_blocks: int, layout: str) -> Tensor:
    block_of = torch.arange(dimension) // (dimension // n_blocks)
    together = block_of[:, None] == block_of[None, :]
    if layout == "diagonal":
        mask = together.expand(n_operators, -1, -1)
    else:
        own = torch.arange(n_operators) % n_blocks
        mask = together & (block_of == own[:, None])[:, :, None]
    return mask.to(torch.get_default_dtype())
