"""The quadratic model of a group of pairs around their coefficients: slope and curvature.

Inner loops are unrolled by hand, as in ``_flow_lanes``.
"""

from transop.inference._flow_lanes import pull_back
from transop.inference._lanes import (
    any_above,
    compiled,
    fma,
    lane_count,
    larger,
    load,
    splat,
    spread,
    store,
    store_four,
    where_positive,
)
from transop.inference._rooms import (
    CANDIDATE_MARGIN,
    DAMPING,
    HEAVIEST,
    LABOURING,
    OPERATORS_AT_ONCE,
    Flat,
    Quadrature,
    Rooms,
)


@compiled
def project(ws: Flat, rooms: Rooms, psi: Flat, scale: float, target: int) -> None:
    """Write scale * <Psi_m, O> for every operator and pair, O being in the room ``outer``."""
    lanes = lane_count(ws)
    factor = splat(ws, scale)
    zero = splat(ws, 0.0)
    p, size = 0, rooms.dimension * rooms.dimension * lanes
    for m in range(0, rooms.n_operators, OPERATORS_AT_ONCE):
        s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
        for at in range(rooms.outer, rooms.outer + size, lanes):
            x = load(ws, at)
            s0 = fma(spread(psi, p), x, s0)
            s1 = fma(spread(psi, p + 1), x, s1)
            s2 = fma(spread(psi, p + 2), x, s2)
            s3 = fma(spread(psi, p + 3), x, s3)
            s4 = fma(spread(psi, p + 4), x, s4)
            s5 = fma(spread(psi, p + 5), x, s5)
            s6 = fma(spread(psi, p + 6), x, s6)
            s7 = fma(spread(psi, p + 7), x, s7)
            p += OPERATORS_AT_ONCE
        to = target + m * lanes
        for total in (s0, s1, s2, s3, s4, s5, s6, s7):
            store(ws, to, factor * total)
            to += lanes


@compiled
def list_candidates(ws: Flat, rooms: Rooms, candidates: Flat) -> int:
    """List the operators that some pair uses or may want to use next.

    An operator whose slope is well below its weight stays at zero in this step; if moving the
    others raises its slope, the next step picks it up. A pair considers only its own candidates,
    whatever its neighbours in the group do: an answer must not depend on the company.
    """
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    margin = splat(ws, CANDIDATE_MARGIN)
    never = splat(ws, HEAVIEST)
    n = 0
    for m in range(rooms.n_operators):
        c = load(ws, rooms.trial + m * lanes)
        slope = load(ws, rooms.gradient + m * lanes)
        weight = load(ws, rooms.weight + m * lanes)
        excess = larger(slope, zero - slope) - margin * weight
        excess = larger(excess, larger(c, zero - c))
        if any_above(excess, zero):
            store(ws, rooms.allowed + n * lanes, where_positive(excess, weight, never))
            candidates[n] = m
            n += 1
    for k in range(n, (n + 3) // 4 * 4):
        candidates[k] = rooms.n_operators  # moves nothing
    return n


@compiled
def _apply_operators(
    ws: Flat, rooms: Rooms, columns: Flat, candidates: Flat, n: int, moved: int
) -> None:
    """Write Psi_m v for every candidate, v being the point in the middle of its path."""
    lanes = lane_count(ws)
    d, wide = rooms.dimension, rooms.padded
    zero = splat(ws, 0.0)
    for k in range(0, (n + 3) // 4 * 4, 2):
        for i in range(0, wide, 4):
            p, q = candidates[k] * d * wide + i, candidates[k + 1] * d * wide + i
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            for at in range(moved, moved + d * lanes, lanes):
                v = load(ws, at)
                a0 = fma(spread(columns, p), v, a0)
                a1 = fma(spread(columns, p + 1), v, a1)
                a2 = fma(spread(columns, p + 2), v, a2)
                a3 = fma(spread(columns, p + 3), v, a3)
                b0 = fma(spread(columns, q), v, b0)
                b1 = fma(spread(columns, q + 1), v, b1)
                b2 = fma(spread(columns, q + 2), v, b2)
                b3 = fma(spread(columns, q + 3), v, b3)
                p += wide
                q += wide
            to = rooms.pushes + (k * wide + i) * lanes
            store_four(ws, to, lanes, a0, a1, a2, a3)
            to += wide * lanes
            store_four(ws, to, lanes, b0, b1, b2, b3)


@compiled
def _stretch_pushes(ws: Flat, rooms: Rooms, n: int) -> None:
    """Write (I + H) x for every push x, with the symmetric H in the room ``outer``."""
    lanes = lane_count(ws)
    column = rooms.padded * lanes
    for k in range(0, n, 4):
        for i in range(0, column, 2 * lanes):
            x = rooms.pushes + k * column
            at, to = x + i, rooms.columns + k * column + i
            a0, b0 = load(ws, at), load(ws, at + lanes)
            a1, b1 = load(ws, at + column), load(ws, at + column + lanes)
            a2, b2 = load(ws, at + 2 * column), load(ws, at + 2 * column + lanes)
            a3, b3 = load(ws, at + 3 * column), load(ws, at + 3 * column + lanes)
            h_at = rooms.outer + i
            for _ in range(rooms.dimension):
                g, h = load(ws, h_at), load(ws, h_at + lanes)
                y = load(ws, x)
                a0, b0 = fma(g, y, a0), fma(h, y, b0)
                y = load(ws, x + column)
                a1, b1 = fma(g, y, a1), fma(h, y, b1)
                y = load(ws, x + 2 * column)
                a2, b2 = fma(g, y, a2), fma(h, y, b2)
                y = load(ws, x + 3 * column)
                a3, b3 = fma(g, y, a3), fma(h, y, b3)
                x += lanes
                h_at += column
            store(ws, to, a0)
            store(ws, to + lanes, b0)
            store(ws, to + column, a1)
            store(ws, to + column + lanes, b1)
            store(ws, to + 2 * column, a2)
            store(ws, to + 2 * column + lanes, b2)
            store(ws, to + 3 * column, a3)
            store(ws, to + 3 * column + lanes, b3)


@compiled
def fill_columns(
    ws: Flat, rooms: Rooms, columns: Flat, candidates: Flat, n: int, moved: int
) -> None:
    """Write the columns whose Gram matrix models the curvature.

    The Jacobian's columns are int_0^1 expm((1-s) A) Psi_m expm(s A) z0 ds. Their Gram matrix
    only steers the steps (the gradient is exact), so the integrand at s = 1/2 does:
    expm(A/2) Psi_m v. Of expm(A/2) the Gram matrix sees its stretch alone,
    (expm(A/2)^T expm(A/2))^(1/2), here to first order I + (A + A^T) / 4. That takes as many
    steps as the exact Jacobian. Overwrites the room ``outer``, whose gradient has been read.
    """
    lanes = lane_count(ws)
    quarter = splat(ws, 0.25)
    for ij in range(0, rooms.dimension * rooms.padded * lanes, lanes):
        both = load(ws, rooms.generator + ij) + load(ws, rooms.mirror + ij)
        store(ws, rooms.outer + ij, quarter * both)
    _apply_operators(ws, rooms, columns, candidates, n, moved)
    _stretch_pushes(ws, rooms, n)


@compiled
def correct_columns(
    ws: Flat,
    rooms: Rooms,
    rule: Quadrature,
    psi: Flat,
    candidates: Flat,
    n: int,
    n_substeps: int,
    n_nodes: int,
) -> None:
    """Replace the columns of labouring pairs by those of the exact Jacobian.

    On long paths the approximation of :func:`fill_columns` steers badly. Row i of the Jacobian
    is what pulls the unit vector e_i back along the path. Overwrites the rooms ``residual``,
    ``outer`` and ``pushes``, which have been read.
    """
    lanes = lane_count(ws)
    zero, one = splat(ws, 0.0), splat(ws, 1.0)
    labouring = load(ws, rooms.scratch + LABOURING * lanes)
    if not any_above(labouring, zero):
        return
    for i in range(rooms.dimension):
        for k in range(rooms.padded):
            store(ws, rooms.residual + k * lanes, one if k == i else zero)
        pull_back(ws, rooms, rule, n_substeps, n_nodes, rooms.residual)
        project(ws, rooms, psi, 1.0 / n_substeps, rooms.pushes)
        for k in range(n):
            at = rooms.columns + (k * rooms.padded + i) * lanes
            exact = load(ws, rooms.pushes + candidates[k] * lanes)
            store(ws, at, where_positive(labouring, exact, load(ws, at)))


@compiled
def form_gram(ws: Flat, rooms: Rooms, n: int, floor: float) -> None:
    """Multiply the columns pairwise; damp the diagonal by 1 + damping of each pair."""
    lanes = lane_count(ws)
    d, step = rooms.dimension, rooms.padded * lanes
    n = (n + 3) // 4 * 4
    zero = splat(ws, 0.0)
    for a in range(0, n, 2):
        for b in range(a // 4 * 4, n, 4):
            s0, s1, s2, s3 = zero, zero, zero, zero
            t0, t1, t2, t3 = zero, zero, zero, zero
            left, right = rooms.columns + a * step, rooms.columns + b * step
            for _ in range(d):
                x, y = load(ws, left), load(ws, left + step)
                c = load(ws, right)
                s0, t0 = fma(x, c, s0), fma(y, c, t0)
                c = load(ws, right + step)
                s1, t1 = fma(x, c, s1), fma(y, c, t1)
                c = load(ws, right + 2 * step)
                s2, t2 = fma(x, c, s2), fma(y, c, t2)
                c = load(ws, right + 3 * step)
                s3, t3 = fma(x, c, s3), fma(y, c, t3)
                left += lanes
                right += lanes
            upper = rooms.gram + (a * n + b) * lanes
            store_four(ws, upper, lanes, s0, s1, s2, s3)
            upper += n * lanes
            store_four(ws, upper, lanes, t0, t1, t2, t3)
            lower = rooms.gram + (b * n + a) * lanes
            for s, t in ((s0, t0), (s1, t1), (s2, t2), (s3, t3)):
                store(ws, lower, s)
                store(ws, lower + lanes, t)
                lower += n * lanes
    damping = splat(ws, 1.0) + load(ws, rooms.scratch + DAMPING * lanes)
    for a in range(n):
        at = rooms.gram + (a * n + a) * lanes
        curvature = fma(load(ws, at), damping, splat(ws, floor))
        store(ws, at, curvature)
        store(ws, rooms.inverse + a * lanes, splat(ws, 1.0) / curvature)
