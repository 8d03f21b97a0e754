"""Where everything lives while a group of pairs is solved: one flat workspace, cut into rooms.

A row of the workspace holds one number per pair of the group.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[Any]

MAX_SUBSTEPS = 31
NORM_PER_SUBSTEP = 4.0  # Frobenius; a flow's own norm is about half, its rounding error e^2 units
MAX_NORM = NORM_PER_SUBSTEP * MAX_SUBSTEPS
MAX_TERMS = 40
CANDIDATE_MARGIN = 0.8  # of its weight: slopes below it keep an unused operator out of a step
HEAVIEST = 1e30  # stands for "never use this operator" without overflowing single precision
REGISTER_BYTES = 32  # AVX2; narrower machines split the register, wider ones half fill it
OPERATORS_AT_ONCE = 8  # dictionaries are filled up with operators that are zero


class Rooms(NamedTuple):
    """Where each quantity starts in the workspace, and the sizes that shape it.

    Latent vectors and the rows of latent matrices are padded with zeros to a multiple of four.
    """

    n_operators: int
    dimension: int
    padded: int  # dimension, rounded up
    z0: int
    z1: int
    generator: int
    mirror: int  # the generator's transpose
    weight: int
    coefficients: int  # accepted so far
    trial: int  # being evaluated
    rejected: int  # the trial as evaluated, while the next one is being found
    gradient: int
    terms: int
    forward: int  # transported point at every quadrature node and endpoint
    backward: int  # residual pulled back to every node of one substep and its start
    residual: int
    outer: int  # integral of backward x forward, rows not padded; later the stretch
    pushes: int  # Psi_m v, per candidate
    columns: int  # whose Gram matrix is the curvature, per candidate
    gram: int
    slope: int  # of the model, per candidate
    sought: int  # coefficient, per candidate
    threshold: int  # weight over curvature, per candidate
    allowed: int  # weight, per candidate; prohibitive where a pair does not consider it
    inverse: int  # of the curvature, negated in the end, per candidate
    used: int  # one where a pair's coefficient is not zero and not final, per candidate
    factor: int  # of the Gram matrix over what is used
    pivot: int  # inverse pivots of that factor
    jump: int  # from the sought coefficients to the minimum with their signs
    turn: int  # of the slopes by that jump
    scratch: int  # norm and per-lane results, see the offsets below
    total: int


N_ROOMS = len(Rooms._fields)

NORM, DATA, PENALTY, DAMPING, PREDICTED, LABOURING = range(6)  # rows of ``scratch``
SCRATCH_ROWS = 8

STATE_ROWS = 12  # of what a group remembers about its pairs, see ``_group_lanes``

# Columns of the answers, after the coefficients.
ANSWER_OBJECTIVE, ANSWER_RESIDUAL, ANSWER_CONVERGED, ANSWER_ITERATIONS = range(4)
ANSWER_COLUMNS = 4


class Quadrature(NamedTuple):
    """Two Gauss-Legendre rules that match a precision, as a table over powers of their nodes.

    For each rule the table holds a row of powers per node and one for the endpoint, then the
    same mirrored (1 - node) and multiplied by the node's weight. Rows go in fours.
    """

    table: Flat
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
    rows = []
    for count in (few, many):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        nodes, weights = (nodes + 1) / 2, weights / 2
        rows.append(np.append(nodes, 1.0)[:, None] ** exponents)
        rows.append(
            np.append(weights, 1.0)[:, None] * np.append(1 - nodes, 1.0)[:, None] ** exponents
        )
    return Quadrature(
        table=np.concatenate(rows).ravel().astype(dtype),
        few=few,
        many=many,
        norm_for_few=0.6 if single else 1.1,
        precision=2e-8 if single else 1e-17,
        rounding=float(np.finfo(dtype).eps),
    )


@lru_cache(maxsize=64)
def arrange_rooms(n_operators: int, dimension: int, lanes: int, many: int) -> Rooms:
    """Lay out the workspace of one group of pairs."""
    d, wide = dimension, round_up(dimension, 4)
    m = n_operators + OPERATORS_AT_ONCE
    sizes = {
        "z0": wide,
        "z1": wide,
        "generator": d * wide,
        "mirror": d * wide,
        "weight": m,
        "coefficients": m,
        "trial": m,
        "rejected": m,
        "gradient": m,
        "terms": MAX_TERMS * wide,
        "forward": MAX_SUBSTEPS * (many + 1) * wide,
        "backward": (many + 1) * wide,
        "residual": wide,
        "outer": (d + 2) * wide,
        "pushes": m * wide,
        "columns": m * wide,
        "gram": m * m,
        "slope": m,
        "sought": m,
        "threshold": m,
        "allowed": m,
        "inverse": m,
        "used": m,
        "factor": m * m,
        "pivot": m,
        "jump": m,
        "turn": m,
        "scratch": SCRATCH_ROWS,
    }
    starts: dict[str, int] = {}
    position = 0
    for name, rows in sizes.items():
        starts[name] = position
        position += rows * lanes
    return Rooms(n_operators, d, wide, **starts, total=position)


def round_up(number: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-number // multiple) * multiple
