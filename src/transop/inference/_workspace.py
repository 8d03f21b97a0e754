"""What the kernel remembers while it solves a group of pairs: a workspace with names.

A row holds one number per pair of the group. Latent vectors
and the rows of latent matrices are padded with zeros to a multiple of four (``wide``). One pair
at a time works on blocks of width ``wide``, a multiple of sixteen, which fill the dimension.
"""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transop.inference._simd import (
    Numbers,
    NumbersType,
    Rows,
    group_rows,
    make_opener,
    single_rows,
)

Array = NDArray[Any]

MAX_SUBSTEPS = 31
NORM_PER_SUBSTEP = 4.0  # Frobenius; a flow's own norm is about half, its rounding error e^2 units
MAX_NORM = NORM_PER_SUBSTEP * MAX_SUBSTEPS
OPERATORS_AT_ONCE = 8  # dictionaries are filled up with operators that are zero
MAX_TERMS = 40  # of a Taylor series
ALIGNED = 16  # numbers: a cache line or more


class Workspace(NamedTuple):
    """Everything a group of pairs needs; :func:`lay_out` gives the sizes.

    Latent vectors and matrices lie side by side, entry by entry. Of one pair they are also seen
    as long rows, which hold several entries; of a group a long row is an ordinary one.
    """

    n_lanes: int  # pairs per group
    n_operators: int
    dimension: int  # of one pair with its padding
    n_blocks: int  # that the dimension is cut into; one for groups
    depth: int  # entries per block
    wide: int  # the same, rounded up
    long: int  # rows that hold so many entries
    z0: Rows
    z1: Rows
    generator: Rows  # A, over the number of substeps
    mirror: Rows  # the generator's transpose
    weight: Rows  # of the penalty, per operator
    coefficients: Rows  # accepted so far
    trial: Rows  # coefficients being evaluated
    rejected: Rows  # the trial as evaluated, while the next one is being found
    gradient: Rows  # of the data term at the trial
    terms: Rows  # A^k z, of one Taylor series
    forward: Rows  # transported point at every quadrature node and endpoint
    backward: Rows  # residual pulled back to every node of one substep and its start
    residual: Rows
    outer: Rows  # integral of backward x forward; later the stretch I + (A + A^T) / 4
    pushes: Rows  # Psi_m v, per candidate
    columns: Rows  # of the Jacobian, per candidate
    returns: Rows  # Psi_m^T u, per candidate; one pair at a time only, as the next
    pulled: Rows  # u, the residual pulled back half way
    curvature: Rows  # diagonal of the Gram matrix before damping
    gram: Rows  # of the columns: the model's curvature
    slope: Rows  # of the model, per candidate
    sought: Rows  # coefficient, per candidate
    threshold: Rows  # weight over curvature, per candidate
    allowed: Rows  # weight, per candidate; prohibitive where a pair does not consider it
    inverse: Rows  # of the curvature, negated in the end, per candidate
    moves: Rows  # of four neighbouring candidates
    used: Rows  # one where a pair's coefficient is not zero and not final, per candidate
    factor: Rows  # of the Gram matrix over what is used
    pivot: Rows  # inverse pivots of that factor
    jump: Rows  # from the sought coefficients to the minimum with their signs
    turn: Rows  # of the slopes by that jump
    norm: Rows  # |A|^2; infinite if A is too large to exponentiate
    data: Rows  # the data term of the trial
    penalty: Rows  # of the trial
    noise: Rows  # changes of the objective that are lost in its rounding
    damping: Rows
    predicted: Rows  # decrease of the objective that the model predicts
    violation: Rows  # of the optimality conditions at the trial, squared and relative
    exact: Rows  # one for pairs that get the exact Jacobian


class Progress(NamedTuple):
    """What a group remembers about each of its pairs, one number per lane, in double precision."""

    pair: Numbers  # its number, or NO_PAIR
    scale: Numbers  # length unit of the pair: its latents are divided by it
    length: Numbers  # of z1, in that unit
    at_zero: Numbers  # objective of zero coefficients
    objective: Numbers  # of the accepted coefficients; infinite before the first evaluation
    data: Numbers  # its data term
    promised: Numbers  # decrease predicted by the model for the trial under way
    hoped: Numbers  # decrease predicted for the trial before any retreat, undamped
    remaining: Numbers  # decrease to be expected of this and all further steps
    violation: Numbers  # of the optimality conditions at the accepted coefficients
    iterations: Numbers
    retreats: Numbers  # consecutive rejected trials
    accepted: Numbers
    restarted: Numbers
    listed: Numbers  # candidates of the model that is kept; one pair at a time only


class Dictionary(NamedTuple):
    """The operators, scaled to unit norm, in the two orders that the products read."""

    interleaved: Numbers  # eight operators entry by entry, for sums over operators
    columns: Numbers  # every operator column by column, for products with one vector
    norms: Numbers  # zero for operators that move nothing


class Blocks(NamedTuple):
    """The same for one pair at a time: block-diagonal operators, transposed."""

    columns: Rows  # every block of every operator column by column
    acts: Numbers  # per operator and block; zero where a block of the operator is zero
    norms: Numbers


class Quadrature(NamedTuple):
    """Two Gauss-Legendre rules that match a precision, as a table over powers of their nodes.

    For each rule the table holds a row per node and one for the endpoint, of powers over
    factorials; then the same mirrored (1 - node) and multiplied by the node's weight.
    """

    table: Numbers
    few: int  # nodes when the generator is small
    many: int  # nodes otherwise
    norm_for_few: float
    precision: float  # relative size of a negligible term of the series
    rounding: float  # distance from one to the next number


@cache
def quadrature_for(dtype: Any) -> Quadrature:
    """Tabulate the two rules that match a precision.

    Differs from the paper: the derivative of the exponential is its exact integral,
    evaluated by quadrature, instead of automatic differentiation. The rules' error bounds
    C_k (2 |A|)^(2k) stay near the rounding error of the precision up to ``norm_for_few`` and
    ``NORM_PER_SUBSTEP``.
    """
    single = np.dtype(dtype) == np.float32
    few, many = (3, 7) if single else (7, 11)
    exponents = np.arange(MAX_TERMS)
    factorials = np.cumprod(np.maximum(exponents, 1), dtype=np.float64)
    rows = []
    for count in (few, many):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        nodes, weights = (nodes + 1) / 2, weights / 2
        powers = np.append(nodes, 1.0)[:, None] ** exponents
        mirrored = np.append(1 - nodes, 1.0)[:, None] ** exponents
        rows += [powers / factorials, np.append(weights, 1.0)[:, None] * mirrored / factorials]
    return Quadrature(
        table=np.concatenate(rows).ravel().astype(dtype),
        few=few,
        many=many,
        norm_for_few=0.6 if single else 1.1,
        precision=2e-8 if single else 1e-17,
        rounding=float(np.finfo(dtype).eps),
    )


@lru_cache(maxsize=64)
def lay_out(sizes: tuple[int, ...], many: int) -> tuple[Array, int]:
    """Give every field of :class:`Workspace` its number or where it starts; count the numbers.

    Args:
        sizes: the fields that are numbers.
        many: quadrature nodes of a substep, at most.
    """
    n_lanes, n_operators, _, n_blocks, _, wide, _ = sizes
    d, m = n_blocks * wide, n_operators + OPERATORS_AT_ONCE
    rows = {
        **dict.fromkeys(("z0", "z1", "residual", "pulled"), d),
        **dict.fromkeys(("generator", "mirror", "outer"), d * wide),
        "terms": MAX_TERMS * wide,
        "forward": MAX_SUBSTEPS * (many + 1) * d,
        "backward": (many + 1) * wide,
        **dict.fromkeys(("pushes", "columns", "returns"), m * d),
        **dict.fromkeys(("gram", "factor"), m * m),
        **dict.fromkeys(("norm", "data", "penalty", "noise", "damping"), 1),
        **dict.fromkeys(("predicted", "violation", "exact"), 1),
    }
    counts = [rows.get(name, m) for name in Workspace._fields[len(sizes) :]]
    # Of one pair every array starts at a cache line, so that long rows do not straddle two.
    ends = n_lanes * np.cumsum(
        [round_up(count, ALIGNED if n_lanes == 1 else 1) for count in counts]
    )
    return np.array([*sizes, 0, *ends[:-1]]), int(ends[-1])


# (numbers, sizes and first numbers of all fields) -> the named tuple
open_workspace = make_opener(Workspace, group_rows)  # groups of pairs
open_single = make_opener(Workspace, single_rows)  # one pair at a time
open_progress = make_opener(Progress, NumbersType)


def round_up(number: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-number // multiple) * multiple
