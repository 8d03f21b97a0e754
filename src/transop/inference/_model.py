"""The quadratic model of a group of pairs around their coefficients: slope and curvature."""

from transop.inference._flow import pull_back
from transop.inference._product import Strided, multiply_matrix, multiply_vector
from transop.inference._simd import (
    Numbers,
    Rows,
    any_above,
    compiled,
    fma,
    larger,
    load,
    long_rows,
    size_of,
    splat,
    store,
    where_positive,
)
from transop.inference._workspace import (
    OPERATORS_AT_ONCE,
    Dictionary,
    Quadrature,
    Workspace,
)

CANDIDATE_MARGIN = 0.8  # of its weight: slopes below it keep an unused operator out of a step
HEAVIEST = 1e30  # stands for "never use this operator" without overflowing single precision


@compiled
def project(ws: Workspace, dictionary: Dictionary, scale: float, target: Rows) -> None:
    """Write scale * <Psi_m, O> for every operator and pair, O being in ``outer``."""
    size = ws.dimension * ws.wide
    factor = splat(target, scale)
    for m in range(0, ws.n_operators, OPERATORS_AT_ONCE):
        multiply_vector(
            Strided(target, m, 1, 0),
            Strided(dictionary.interleaved, m * size, 1, OPERATORS_AT_ONCE),
            Strided(ws.outer, 0, 0, 1),
            OPERATORS_AT_ONCE,
            size,
            False,
        )
        for k in range(m, m + OPERATORS_AT_ONCE):
            store(target, k, factor * load(target, k))


@compiled
def list_candidates(ws: Workspace, candidates: Numbers) -> int:
    """List the operators that some pair uses or may want to use next.

    An operator whose slope is well below its weight stays at zero in this step; if moving the
    others raises its slope, the next step picks it up. A pair considers only its own candidates:
    its result must not depend on the other pairs of the group.
    """
    margin = splat(ws.weight, CANDIDATE_MARGIN)
    never = splat(ws.weight, HEAVIEST)
    n = 0
    for m in range(ws.n_operators):
        weight = load(ws.weight, m)
        excess = size_of(load(ws.gradient, m)) - margin * weight
        excess = larger(excess, size_of(load(ws.trial, m)))
        if any_above(excess, splat(ws.weight, 0.0)):
            store(ws.allowed, n, where_positive(excess, weight, never))
            candidates[n] = m
            n += 1
    for k in range(n, (n + 3) // 4 * 4):
        candidates[k] = ws.n_operators  # an operator that moves nothing
    return n


@compiled
def fill_columns(
    ws: Workspace,
    dictionary: Dictionary,
    candidates: Numbers,
    n: int,
    middle: int,
    n_substeps: int,
) -> None:
    """Write the columns whose Gram matrix models the curvature.

    The Jacobian's columns are int_0^1 expm((1-s) A) Psi_m expm(s A) z0 ds. Their Gram matrix
    only steers the steps (the gradient is exact), so the integrand at s = 1/2 does:
    expm(A/2) Psi_m v, where v (at row ``middle`` of ``forward``) is half way along the path.
    """
    d, wide = ws.dimension, ws.wide
    n = (n + 3) // 4 * 4
    for k in range(n):
        multiply_vector(
            Strided(ws.pushes, k * wide, 1, 0),
            Strided(dictionary.columns, candidates[k] * d * wide, 1, wide),
            Strided(ws.forward, middle, 0, 1),
            wide,
            d,
            False,
        )
    stretch_pushes(ws, n, n_substeps)


@compiled
def stretch_pushes(ws: Workspace, n: int, n_substeps: int) -> None:
    """Write expm(A/2) times the pushes of ``n`` candidates, up to a rotation.

    Of expm(A/2) the Gram matrix sees its stretch alone, (expm(A/2)^T expm(A/2))^(1/2), here to
    first order I + (A + A^T) / 4. That takes as many steps as the exact Jacobian. Overwrites
    ``outer``, whose gradient has been read.
    """
    wide, long, size = ws.wide, ws.long, ws.depth * ws.long
    generator, mirror = long_rows(ws.generator), long_rows(ws.mirror)
    stretch, columns = long_rows(ws.outer), long_rows(ws.columns)
    quarter, one = splat(stretch, 0.25 * n_substeps), splat(ws.outer, 1.0)
    for ij in range(ws.n_blocks * size):
        store(stretch, ij, quarter * (load(generator, ij) + load(mirror, ij)))
    for block in range(ws.n_blocks):
        for i in range(ws.depth):
            at = (block * ws.depth + i) * wide + i
            store(ws.outer, at, one + load(ws.outer, at))
        multiply_matrix(
            Strided(columns, block * long, ws.n_blocks * long, 1),
            Strided(ws.pushes, block * wide, ws.n_blocks * wide, 1),
            Strided(stretch, block * size, 1, long),
            n,
            long,
            ws.depth,
            False,
        )


@compiled
def correct_columns(
    ws: Workspace,
    rule: Quadrature,
    dictionary: Dictionary,
    candidates: Numbers,
    n: int,
    n_substeps: int,
    n_nodes: int,
) -> None:
    """Replace the columns by those of the exact Jacobian where ``exact`` asks for it.

    On long paths the approximation of :func:`fill_columns` steers badly. Row i of the Jacobian
    is what pulls the unit vector e_i back along the path. Overwrites ``residual``, ``outer`` and
    ``pushes``, which have been read.
    """
    zero, one = splat(ws.exact, 0.0), splat(ws.exact, 1.0)
    exact = load(ws.exact, 0)
    if not any_above(exact, zero):
        return
    for i in range(ws.dimension):
        for k in range(ws.wide):
            store(ws.residual, k, zero)
        store(ws.residual, i, one)
        pull_back(ws, rule, n_substeps, n_nodes)
        project(ws, dictionary, 1.0 / n_substeps, ws.pushes)
        for k in range(n):
            at = k * ws.wide + i
            better = load(ws.pushes, candidates[k])
            store(ws.columns, at, where_positive(exact, better, load(ws.columns, at)))


@compiled
def form_gram(ws: Workspace, n: int) -> None:
    """Multiply the columns pairwise."""
    wide = ws.wide
    n = (n + 3) // 4 * 4
    for a in range(0, n, 4):
        multiply_matrix(
            Strided(ws.gram, a * n, n, 1),
            Strided(ws.columns, a * wide, wide, 1),
            Strided(ws.columns, 0, wide, 1),
            4,
            a + 4,
            ws.dimension,
            False,
        )
        for i in range(a, a + 4):  # the matrix is symmetric: copy what lies below the diagonal
            for b in range(a):
                store(ws.gram, b * n + i, load(ws.gram, i * n + b))


@compiled
def measure_violation(ws: Workspace, candidates: Numbers, n: int) -> None:
    """Write by how much the trial violates the optimality conditions, as a squared share.

    [STATIONARITY]  slope_m = -w_m sign(c_m) where c_m is not zero, |slope_m| <= w_m where it is

    The violation of a condition is measured in units of what stands on both sides of it: the
    weight, and the length of the residual times that of the Jacobian's column. What would change
    the objective by no more than its rounding does not count.
    """
    n4 = (n + 3) // 4 * 4
    zero = splat(ws.data, 0.0)
    worst, tiny = zero, splat(ws.data, 1e-30)
    twice_data = load(ws.data, 0) + load(ws.data, 0)
    twice_noise = load(ws.noise, 0) + load(ws.noise, 0)
    for k in range(n):
        m = candidates[k]
        c, slope, weight = load(ws.trial, m), load(ws.gradient, m), load(ws.weight, m)
        unused = larger(size_of(slope) - weight, zero)
        off = where_positive(c, slope + weight, where_positive(zero - c, slope - weight, unused))
        square = load(ws.gram, k * n4 + k)
        excess = fma(off, off, zero - twice_noise * square)
        unit = fma(weight, weight, fma(twice_data, square, tiny))
        worst = larger(worst, where_positive(excess, excess / unit, zero))
    store(ws.violation, 0, worst)


@compiled
def damp_gram(ws: Workspace, n: int, floor: float) -> None:
    """Multiply the diagonal of the Gram matrix by 1 + damping of each pair; invert it."""
    n = (n + 3) // 4 * 4
    one = splat(ws.gram, 1.0)
    damping = one + load(ws.damping, 0)
    for a in range(n):
        curvature = fma(load(ws.gram, a * n + a), damping, splat(ws.gram, floor))
        store(ws.gram, a * n + a, curvature)
        store(ws.inverse, a, one / curvature)
