"""What the kernel remembers while it solves a group of pairs: a workspace with names.

A row holds one number per pair of the group. Latent vectors
and the rows of latent matrices are padded with zeros to a multiple of four (``wide``). One pair
at a time works on blocks of width ``wide``, a multiple of sixteen, which fill the dimension.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transop.inference._simd import (
    Numbers,
    Rows,
    compiled,
    numbers_from,
    rows_from,
    single_rows_from,
)

Array = NDArray[Any]

MAX_SUBSTEPS = 31
NORM_PER_SUBSTEP = 4.0  # Frobenius; a flow's own norm is about half, its rounding error e^2 units
MAX_NORM = NORM_PER_SUBSTEP * MAX_SUBSTEPS
OPERATORS_AT_ONCE = 8  # dictionaries are filled up with operators that are zero
MAX_TERMS = 40  # of a Taylor series


class Workspace(NamedTuple):
    """Everything a group of pairs needs; :func:`count_rows` gives the sizes."""

    n_lanes: int  # pairs per group
    n_operators: int
    dimension: int
    wide: int  # the dimension, rounded up; of a block where one pair is solved at a time
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
    used: Numbers  # room for a list of operators
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
def count_rows(n_operators: int, n_blocks: int, wide: int, many: int) -> dict[str, int]:
    """Count the rows of every array of the workspace, in its order."""
    d = n_blocks * wide
    m = n_operators + OPERATORS_AT_ONCE
    return {
        **dict.fromkeys(("z0", "z1"), d),
        **dict.fromkeys(("generator", "mirror"), d * wide),
        **dict.fromkeys(("weight", "coefficients", "trial", "rejected", "gradient"), m),
        "terms": MAX_TERMS * wide,
        "forward": MAX_SUBSTEPS * (many + 1) * d,
        "backward": (many + 1) * wide,
        "residual": d,
        "outer": d * wide,
        **dict.fromkeys(("pushes", "columns", "returns"), m * d),
        "pulled": d,
        "curvature": m,
        "gram": m * m,
        **dict.fromkeys(("slope", "sought", "threshold", "allowed", "inverse"), m),
        "moves": 4,
        "used": m,
        "factor": m * m,
        **dict.fromkeys(("pivot", "jump", "turn"), m),
        **dict.fromkeys(("norm", "data", "penalty", "noise", "damping"), 1),
        **dict.fromkeys(("predicted", "violation", "exact"), 1),
    }


def _make_opener(rows_from: Any) -> Any:
    """Make the function that points every name of :class:`Workspace` to its memory, in order."""

    @compiled
    def open_workspace(
        memory: Array, starts: Array, n_lanes: int, n_operators: int, dimension: int, wide: int
    ) -> Workspace:
        return Workspace(
            n_lanes,
            n_operators,
            dimension,
            wide,
            rows_from(memory, starts[0]),  # z0
            rows_from(memory, starts[1]),  # z1
            rows_from(memory, starts[2]),  # generator
            rows_from(memory, starts[3]),  # mirror
            rows_from(memory, starts[4]),  # weight
            rows_from(memory, starts[5]),  # coefficients
            rows_from(memory, starts[6]),  # trial
            rows_from(memory, starts[7]),  # rejected
            rows_from(memory, starts[8]),  # gradient
            rows_from(memory, starts[9]),  # terms
            rows_from(memory, starts[10]),  # forward
            rows_from(memory, starts[11]),  # backward
            rows_from(memory, starts[12]),  # residual
            rows_from(memory, starts[13]),  # outer
            rows_from(memory, starts[14]),  # pushes
            rows_from(memory, starts[15]),  # columns
            rows_from(memory, starts[16]),  # returns
            rows_from(memory, starts[17]),  # pulled
            rows_from(memory, starts[18]),  # curvature
            rows_from(memory, starts[19]),  # gram
            rows_from(memory, starts[20]),  # slope
            rows_from(memory, starts[21]),  # sought
            rows_from(memory, starts[22]),  # threshold
            rows_from(memory, starts[23]),  # allowed
            rows_from(memory, starts[24]),  # inverse
            rows_from(memory, starts[25]),  # moves
            rows_from(memory, starts[26]),  # used
            rows_from(memory, starts[27]),  # factor
            rows_from(memory, starts[28]),  # pivot
            rows_from(memory, starts[29]),  # jump
            rows_from(memory, starts[30]),  # turn
            rows_from(memory, starts[31]),  # norm
            rows_from(memory, starts[32]),  # data
            rows_from(memory, starts[33]),  # penalty
            rows_from(memory, starts[34]),  # noise
            rows_from(memory, starts[35]),  # damping
            rows_from(memory, starts[36]),  # predicted
            rows_from(memory, starts[37]),  # violation
            rows_from(memory, starts[38]),  # exact
        )

    return open_workspace


open_workspace = _make_opener(rows_from)  # groups of pairs
open_single = _make_opener(single_rows_from)  # one pair at a time


@compiled
def open_progress(memory: Array, n_lanes: int) -> Progress:
    """Point every name of :class:`Progress` to its row of the memory, in order."""
    return Progress(
        numbers_from(memory, 0 * n_lanes),  # pair
        numbers_from(memory, 1 * n_lanes),  # scale
        numbers_from(memory, 2 * n_lanes),  # length
        numbers_from(memory, 3 * n_lanes),  # at_zero
        numbers_from(memory, 4 * n_lanes),  # objective
        numbers_from(memory, 5 * n_lanes),  # data
        numbers_from(memory, 6 * n_lanes),  # promised
        numbers_from(memory, 7 * n_lanes),  # hoped
        numbers_from(memory, 8 * n_lanes),  # remaining
        numbers_from(memory, 9 * n_lanes),  # violation
        numbers_from(memory, 10 * n_lanes),  # iterations
        numbers_from(memory, 11 * n_lanes),  # retreats
        numbers_from(memory, 12 * n_lanes),  # accepted
        numbers_from(memory, 13 * n_lanes),  # restarted
        numbers_from(memory, 14 * n_lanes),  # listed
    )


def round_up(number: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-number // multiple) * multiple
