"""Where everything lives while a group of pairs is solved: one flat workspace, cut into rooms.

A row of the workspace holds one number per pair of the group.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[Any]

MAX_SUBSTEPS = 63
NORM_PER_SUBSTEP = 2.0  # keeps the series short and its rounding error near e^2 units
MAX_NORM = NORM_PER_SUBSTEP * MAX_SUBSTEPS
MAX_TERMS = 40
CANDIDATE_MARGIN = 0.8  # of its weight: slopes below it keep an unused operator out of a step
HEAVIEST = 1e30  # stands for "never use this operator" without overflowing single precision
OPERATOR_PADDING = 16  # numbers between operators: power-of-two strides would collide in cache


class Rooms(NamedTuple):
    """Where each quantity starts in the workspace, and the sizes that shape it."""

    n_operators: int
    dimension: int
    stride: int  # numbers from one operator to the next
    z0: int
    z1: int
    weight: int
    coefficients: int  # accepted so far
    trial: int  # being evaluated; one extra zero row pads lists of operators
    rejected: int  # the trial as evaluated, while the next one is being found
    gradient: int
    generator: int
    terms: int
    forward: int  # transported point at every quadrature node
    backward: int  # residual pulled back to every node of one substep
    outer: int  # integral of backward x forward
    endpoint: int
    residual: int
    middle: int  # -1/2 of the residual pulled back to the middle of the path
    columns: int
    gram: int
    slope: int  # of the model, per candidate
    allowed: int  # weight, per candidate; prohibitive where a pair does not consider it
    inverse: int  # of the curvature, per candidate
    scratch: int  # norm and per-lane results, see the offsets below
    total: int


NORM, DATA, PENALTY, DAMPING, PREDICTED = range(5)  # rows of ``scratch``
SCRATCH_ROWS = 8


class Quadrature(NamedTuple):
    """Two Gauss-Legendre rules that match a precision, as a table over powers of their nodes.

    The table holds ``many + 1`` rows of powers per rule (the last row is the endpoint, 1), then
    ``many`` rows per rule of the same mirrored (1 - node) and multiplied by the node's weight.
    """

    table: Flat
    few: int  # nodes when the generator is small
    many: int  # nodes otherwise
    norm_for_few: float
    precision: float  # relative size of the first neglected term of the series
    rounding: float  # distance from one to the next number


def quadrature_for(dtype: Any) -> Quadrature:
    """Tabulate the two rules that match a precision.

    Differs from the paper: the derivative of the exponential is its exact integral,
    evaluated by quadrature, instead of automatic differentiation. The rules' error bounds
    C_k (2 |A|)^(2k) stay below the rounding error of the precision.
    """
    single = np.dtype(dtype) == np.float32
    few, many = (3, 5) if single else (7, 9)
    powers = np.zeros((2, many + 1, MAX_TERMS))
    weighted = np.zeros((2, many, MAX_TERMS))
    for rule, count in enumerate((few, many)):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        nodes, weights = (nodes + 1) / 2, weights / 2
        exponents = np.arange(MAX_TERMS)
        powers[rule, :count] = nodes[:, None] ** exponents
        powers[rule, many] = 1.0
        weighted[rule, :count] = weights[:, None] * (1 - nodes)[:, None] ** exponents
    return Quadrature(
        table=np.concatenate([powers.ravel(), weighted.ravel()]).astype(dtype),
        few=few,
        many=many,
        norm_for_few=0.5 if single else 1.1,
        precision=2e-8 if single else 1e-17,
        rounding=float(np.finfo(dtype).eps),
    )


def arrange_rooms(n_operators: int, dimension: int, lanes: int, many: int) -> Rooms:
    """Lay out the workspace of one group of pairs."""
    m, d = n_operators, dimension
    padded = m + 4
    sizes = {
        "z0": d,
        "z1": d,
        "weight": padded,
        "coefficients": padded,
        "trial": padded,
        "rejected": padded,
        "gradient": padded,
        "generator": d * d,
        "terms": (MAX_TERMS + 1) * d,
        "forward": MAX_SUBSTEPS * many * d,
        "backward": many * d,
        "outer": d * d + 1,
        "endpoint": d,
        "residual": d,
        "middle": d,
        "columns": padded * d,
        "gram": padded * padded,
        "slope": padded,
        "allowed": padded,
        "inverse": padded,
        "scratch": SCRATCH_ROWS,
    }
    starts: dict[str, int] = {}
    position = 0
    for name, rows in sizes.items():
        starts[name] = position
        position += rows * lanes
    return Rooms(m, d, d * d + OPERATOR_PADDING, **starts, total=position)
