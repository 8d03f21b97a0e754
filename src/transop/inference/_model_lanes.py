"""The quadratic model of a group of pairs around their coefficients: slope and curvature."""

from transop.inference._flow_lanes import pad_list
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
    where_positive,
)
from transop.inference._rooms import CANDIDATE_MARGIN, DAMPING, HEAVIEST, Flat, Rooms


@compiled
def project_gradient(ws: Flat, rooms: Rooms, psi: Flat, scale: float) -> None:
    """Write the data term's gradient, -<Psi_m, O>, for every operator and pair."""
    lanes = lane_count(ws)
    size = rooms.dimension * rooms.dimension
    factor = splat(ws, -scale)
    zero = splat(ws, 0.0)
    store(ws, rooms.outer + size * lanes, zero)  # lets an odd number of entries go in twos
    for m in range(0, rooms.n_operators, 4):
        p0 = m * rooms.stride
        p1, p2, p3 = p0 + rooms.stride, p0 + 2 * rooms.stride, p0 + 3 * rooms.stride
        a0, a1, a2, a3 = zero, zero, zero, zero
        b0, b1, b2, b3 = zero, zero, zero, zero
        for ij in range(0, size, 2):
            x = load(ws, rooms.outer + ij * lanes)
            y = load(ws, rooms.outer + (ij + 1) * lanes)
            a0 = fma(spread(psi, p0 + ij), x, a0)
            a1 = fma(spread(psi, p1 + ij), x, a1)
            a2 = fma(spread(psi, p2 + ij), x, a2)
            a3 = fma(spread(psi, p3 + ij), x, a3)
            b0 = fma(spread(psi, p0 + ij + 1), y, b0)
            b1 = fma(spread(psi, p1 + ij + 1), y, b1)
            b2 = fma(spread(psi, p2 + ij + 1), y, b2)
            b3 = fma(spread(psi, p3 + ij + 1), y, b3)
        at = rooms.gradient + m * lanes
        store(ws, at, factor * (a0 + b0))
        store(ws, at + lanes, factor * (a1 + b1))
        store(ws, at + 2 * lanes, factor * (a2 + b2))
        store(ws, at + 3 * lanes, factor * (a3 + b3))


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
    pad_list(candidates, n, rooms.n_operators)
    return n


@compiled
def fill_columns(ws: Flat, rooms: Rooms, psi: Flat, candidates: Flat, n: int, moved: int) -> None:
    """Write the columns whose Gram matrix models the curvature.

    Column m is Psi_m v - 1/2 Psi_m^T u with v the point and u the residual, both at the middle
    of the path. Psi_m v alone is the midpoint value of the Jacobian (Gauss-Newton). The second
    part makes the Gram matrix contain, to first order in the residual, the curvature of the
    path that Gauss-Newton neglects, and keeps it positive semi-definite.
    """
    lanes = lane_count(ws)
    d = rooms.dimension
    transposes = (rooms.n_operators + 4) * rooms.stride
    zero = splat(ws, 0.0)
    for k in range(0, n, 4):
        p0, p1 = candidates[k] * rooms.stride, candidates[k + 1] * rooms.stride
        p2, p3 = candidates[k + 2] * rooms.stride, candidates[k + 3] * rooms.stride
        for i in range(d):
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            for j in range(d):
                v = load(ws, moved + j * lanes)
                u = load(ws, rooms.middle + j * lanes)
                ij = i * d + j
                ji = transposes + ij
                a0 = fma(spread(psi, p0 + ij), v, a0)
                b0 = fma(spread(psi, p0 + ji), u, b0)
                a1 = fma(spread(psi, p1 + ij), v, a1)
                b1 = fma(spread(psi, p1 + ji), u, b1)
                a2 = fma(spread(psi, p2 + ij), v, a2)
                b2 = fma(spread(psi, p2 + ji), u, b2)
                a3 = fma(spread(psi, p3 + ij), v, a3)
                b3 = fma(spread(psi, p3 + ji), u, b3)
            to = rooms.columns + (k * d + i) * lanes
            store(ws, to, a0 + b0)
            store(ws, to + d * lanes, a1 + b1)
            store(ws, to + 2 * d * lanes, a2 + b2)
            store(ws, to + 3 * d * lanes, a3 + b3)


@compiled
def form_gram(ws: Flat, rooms: Rooms, n: int, floor: float) -> None:
    """Multiply the columns pairwise; damp the diagonal by 1 + damping of each pair."""
    lanes = lane_count(ws)
    d = rooms.dimension
    n = (n + 3) // 4 * 4
    zero = splat(ws, 0.0)
    for a in range(0, n, 2):
        for b in range(a // 4 * 4, n, 4):
            s0, s1, s2, s3 = zero, zero, zero, zero
            t0, t1, t2, t3 = zero, zero, zero, zero
            left, right = rooms.columns + a * d * lanes, rooms.columns + b * d * lanes
            step = d * lanes
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
            store(ws, upper, s0)
            store(ws, upper + lanes, s1)
            store(ws, upper + 2 * lanes, s2)
            store(ws, upper + 3 * lanes, s3)
            upper += n * lanes
            store(ws, upper, t0)
            store(ws, upper + lanes, t1)
            store(ws, upper + 2 * lanes, t2)
            store(ws, upper + 3 * lanes, t3)
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
