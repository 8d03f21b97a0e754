"""The truncated, scaled Taylor series of the exponential, and what it costs to be exact.

Everything else in this package is written in terms of these few functions. They check nothing:
callers hand in tensors that already fit together.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError

# Longest generator a single series step may see. Terms of the series grow up to e**this before
# they shrink, so the digits lost to cancellation stay below one.
_LONGEST_STEP = 2.0

# Beyond this norm no number of steps gives an answer in time.
_LARGEST_NORM = 1e6

# Up to this size a batched matrix-vector product is faster as one, above it as multiply-and-sum.
_SMALL_MATRIX = 16


@dataclass(frozen=True)
class SeriesPlan:
    """How many steps to cut the unit interval into, and how many terms each step needs."""

    n_steps: int
    n_terms: int


def plan_series(norm: float, dtype: torch.dtype) -> SeriesPlan:
    """Choose steps and terms so that a generator of this norm is exponentiated to round-off.

    The remainder after K terms of a step of norm x is at most x^(K+1)/(K+1)! / (1 - x/(K+2)).
    The bound is applied one term early, because a derivative of the series is one term shorter.

    Args:
        norm: an upper bound of the generator's spectral norm, finite.
        dtype: the type whose unit round-off the remainder must not exceed.
    """
    if norm > _LARGEST_NORM:
        raise TensorError(
            f"coefficients times operators have norm {norm:.3g}, which the series cannot follow; "
            f"pass smaller coefficients (the norm may be {_LARGEST_NORM:g} at most)"
        )
    n_steps = max(1, math.ceil(norm / _LONGEST_STEP))
    step = norm / n_steps
    tolerance = torch.finfo(dtype).eps / 2
    n_terms, remainder = 1, step
    while remainder > tolerance or step >= n_terms + 1:
        n_terms += 1
        remainder *= step / n_terms
    return SeriesPlan(n_steps, n_terms)


def build_generator(
    operators: Float[Tensor, "m d d"], coefficients: Float[Tensor, "*batch m"]
) -> Float[Tensor, "*batch d d"]:
    """Mix the operators into one generator per row of coefficients: A = sum_m c_m Psi_m."""
    m, d, _ = operators.shape
    return (coefficients @ operators.reshape(m, d * d)).reshape(*coefficients.shape[:-1], d, d)


def bound_norm(generator: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """Bound the spectral norm of each generator from above, without decomposing it.

    The smaller of the Frobenius norm and the geometric mean of largest row and column sum.
    """
    sizes = generator.abs()
    rows = sizes.sum(-1).amax(-1)
    columns = sizes.sum(-2).amax(-1)
    frobenius = torch.linalg.vector_norm(generator, dim=(-2, -1))
    # The square roots are taken first: a product of two large sums would overflow.
    return torch.minimum(frobenius, rows.sqrt() * columns.sqrt())


def largest_norm(generator: Float[Tensor, "*batch d d"]) -> float:
    """Bound the spectral norm of the longest generator of a batch; 0 for an empty one.

    Raises:
        TensorError: a generator is itself too large to be represented.
    """
    if generator.numel() == 0:
        return 0.0
    norm = float(bound_norm(generator.detach()).amax())
    if not math.isfinite(norm):
        raise TensorError(
            f"coefficients times operators exceed what {generator.dtype} can hold; "
            "pass smaller coefficients or a wider type"
        )
    return norm


def apply_matrix(
    matrix: Float[Tensor, "*#batch d d"], columns: Float[Tensor, "*#batch d n"]
) -> Float[Tensor, "*batch d n"]:
    """Multiply a batch of matrices with a batch of column blocks, the faster of two ways."""
    if columns.shape[-1] == 1 and matrix.shape[-1] > _SMALL_MATRIX and matrix.device.type == "cpu":
        return (matrix * columns.mT).sum(-1, keepdim=True)
    return matrix @ columns


def apply_series(
    generator: Float[Tensor, "*#batch d d"],
    columns: Float[Tensor, "*#batch d n"],
    plan: SeriesPlan,
    times: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "*batch d n"]:
    """Apply expm(t_i A) to the i-th column, for all columns at once.

    Args:
        generator: A.
        columns: the vectors to move.
        plan: from :func:`plan_series`, for the norm of A times the largest |t|.
        times: one t per column; all 1 if left out.
    """
    pace = 1.0 / plan.n_steps if times is None else times / plan.n_steps
    for _ in range(plan.n_steps):
        term = columns
        for k in range(1, plan.n_terms + 1):
            term = apply_matrix(generator, term) * (pace / k)
            columns = columns + term
    return columns
