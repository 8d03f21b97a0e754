"""The transport of a group of pairs and its derivative, all pairs of the group in lock step.

Inner loops are unrolled by hand into as many sums as the processor can keep under way, about
eight. That makes some functions longer than elsewhere; a loop over sums would live in memory.
"""

from typing import Any

import numpy as np

from transop.inference._lanes import (
    any_above,
    compiled,
    embedded,
    fma,
    lane_count,
    larger,
    load,
    splat,
    spread,
    store,
    store_four,
)
from transop.inference._rooms import (
    DATA,
    MAX_NORM,
    MAX_TERMS,
    NORM,
    NORM_PER_SUBSTEP,
    OPERATORS_AT_ONCE,
    PENALTY,
    Flat,
    Quadrature,
    Rooms,
)


@embedded
def _square_sum(ws: Flat, start: int, n: int) -> Any:
    """Add up the squares of many rows, in four sums that do not wait for each other."""
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    k = 0
    while k + 4 <= n:
        at = start + k * lanes
        x0, x1 = load(ws, at), load(ws, at + lanes)
        x2, x3 = load(ws, at + 2 * lanes), load(ws, at + 3 * lanes)
        s0, s1 = fma(x0, x0, s0), fma(x1, x1, s1)
        s2, s3 = fma(x2, x2, s2), fma(x3, x3, s3)
        k += 4
    while k < n:
        x0 = load(ws, start + k * lanes)
        s0 = fma(x0, x0, s0)
        k += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def _list_used_blocks(ws: Flat, rooms: Rooms, blocks: Flat) -> int:
    """List the blocks of eight operators of which some pair's trial uses one."""
    lanes = lane_count(ws)
    n = 0
    for m in range(0, rooms.n_operators, OPERATORS_AT_ONCE):
        square = _square_sum(ws, rooms.trial + m * lanes, OPERATORS_AT_ONCE)
        if any_above(square, splat(ws, 0.0)):
            blocks[n] = m // OPERATORS_AT_ONCE
            n += 1
    return n


@embedded
def _add_row(ws: Flat, rooms: Rooms, psi: Flat, block: int, i: int) -> None:
    """Add eight operators, times their coefficients, to one row of the generator."""
    lanes = lane_count(ws)
    d = rooms.dimension
    c = rooms.trial + block * OPERATORS_AT_ONCE * lanes
    c0, c1 = load(ws, c), load(ws, c + lanes)
    c2, c3 = load(ws, c + 2 * lanes), load(ws, c + 3 * lanes)
    c4, c5 = load(ws, c + 4 * lanes), load(ws, c + 5 * lanes)
    c6, c7 = load(ws, c + 6 * lanes), load(ws, c + 7 * lanes)
    p = (block * d + i) * d * OPERATORS_AT_ONCE
    at = rooms.generator + i * rooms.padded * lanes
    for _ in range(d):
        low = fma(c0, spread(psi, p), load(ws, at))
        high = c1 * spread(psi, p + 1)
        low = fma(c2, spread(psi, p + 2), low)
        high = fma(c3, spread(psi, p + 3), high)
        low = fma(c4, spread(psi, p + 4), low)
        high = fma(c5, spread(psi, p + 5), high)
        low = fma(c6, spread(psi, p + 6), low)
        high = fma(c7, spread(psi, p + 7), high)
        store(ws, at, low + high)
        p += OPERATORS_AT_ONCE
        at += lanes


@compiled
def form_generator(ws: Flat, rooms: Rooms, psi: Flat, blocks: Flat) -> None:
    """Add up A = sum_m c_m Psi_m over the operators some pair uses; copy A^T, measure |A|."""
    lanes = lane_count(ws)
    d, row = rooms.dimension, rooms.padded * lanes
    n_blocks = _list_used_blocks(ws, rooms, blocks)
    zero = splat(ws, 0.0)
    for i in range(d):  # row by row, so that a row waits in the fastest cache for all operators
        at, to = rooms.generator + i * row, rooms.mirror + i * lanes
        for j in range(0, d * lanes, lanes):
            store(ws, at + j, zero)
        for k in range(n_blocks):
            _add_row(ws, rooms, psi, blocks[k], i)
        for j in range(0, d * lanes, lanes):
            store(ws, to, load(ws, at + j))
            to += row
    square = _square_sum(ws, rooms.generator, d * rooms.padded)
    store(ws, rooms.scratch + NORM * lanes, square)


@embedded
def _store_scaled(ws: Flat, to: int, factor: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Store four rows times a factor; return the largest size per pair."""
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    a, b, c, d = factor * a, factor * b, factor * c, factor * d
    store_four(ws, to, lanes, a, b, c, d)
    low = larger(larger(a, zero - a), larger(b, zero - b))
    return larger(low, larger(larger(c, zero - c), larger(d, zero - d)))


@embedded
def _multiply(
    ws: Flat, matrix: int, source: int, target: int, d: int, padded: int, factor: Any
) -> Any:
    """Write factor * M^T x for a matrix of padded rows; return the largest size per pair."""
    lanes = lane_count(ws)
    row = padded * lanes
    zero = splat(ws, 0.0)
    largest = zero
    i = 0
    while i + 8 <= padded:
        y0, y1, y2, y3, y4, y5, y6, y7 = zero, zero, zero, zero, zero, zero, zero, zero
        at = matrix + i * lanes
        for x_at in range(source, source + d * lanes, lanes):
            x = load(ws, x_at)
            y0 = fma(load(ws, at), x, y0)
            y1 = fma(load(ws, at + lanes), x, y1)
            y2 = fma(load(ws, at + 2 * lanes), x, y2)
            y3 = fma(load(ws, at + 3 * lanes), x, y3)
            y4 = fma(load(ws, at + 4 * lanes), x, y4)
            y5 = fma(load(ws, at + 5 * lanes), x, y5)
            y6 = fma(load(ws, at + 6 * lanes), x, y6)
            y7 = fma(load(ws, at + 7 * lanes), x, y7)
            at += row
        to = target + i * lanes
        largest = larger(largest, _store_scaled(ws, to, factor, y0, y1, y2, y3))
        largest = larger(largest, _store_scaled(ws, to + 4 * lanes, factor, y4, y5, y6, y7))
        i += 8
    if i < padded:
        y0, y1, y2, y3 = zero, zero, zero, zero
        at = matrix + i * lanes
        for x_at in range(source, source + d * lanes, lanes):
            x = load(ws, x_at)
            y0 = fma(load(ws, at), x, y0)
            y1 = fma(load(ws, at + lanes), x, y1)
            y2 = fma(load(ws, at + 2 * lanes), x, y2)
            y3 = fma(load(ws, at + 3 * lanes), x, y3)
            at += row
        to = target + i * lanes
        largest = larger(largest, _store_scaled(ws, to, factor, y0, y1, y2, y3))
    return largest


@compiled
def _expand(
    ws: Flat, rooms: Rooms, matrix: int, source: int, scale: float, precision: float
) -> int:
    """List the Taylor terms (scale M^T)^k x / k! for a matrix M of padded rows.

    Returns:
        The power of the last term listed: the first one negligible for every pair.
    """
    lanes = lane_count(ws)
    d, row = rooms.dimension, rooms.padded * lanes
    zero = splat(ws, 0.0)
    limit = zero
    for i in range(0, row, lanes):
        x = load(ws, source + i)
        limit = larger(limit, larger(x, zero - x))
        store(ws, rooms.terms + i, x)
    limit = splat(ws, precision) * limit
    k, going = 0, True
    while going and k < MAX_TERMS - 1:
        k += 1
        to = rooms.terms + k * row
        factor = splat(ws, scale / k)
        largest = _multiply(ws, matrix, to - row, to, d, rooms.padded, factor)
        going = any_above(largest, limit)
    return k


@compiled
def _blend(
    ws: Flat, rooms: Rooms, table: Flat, at: int, n_nodes: int, n_terms: int, target: int
) -> None:
    """Sum the Taylor terms with the powers of every node: the flow at the nodes."""
    lanes = lane_count(ws)
    row = rooms.padded * lanes
    zero = splat(ws, 0.0)
    for node in range(0, n_nodes, 4):
        p0 = at + node * MAX_TERMS
        for i in range(0, row, 2 * lanes):
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            term = rooms.terms + i
            for k in range(p0, p0 + n_terms + 1):
                x, y = load(ws, term), load(ws, term + lanes)
                power = spread(table, k)
                a0, b0 = fma(power, x, a0), fma(power, y, b0)
                power = spread(table, k + MAX_TERMS)
                a1, b1 = fma(power, x, a1), fma(power, y, b1)
                power = spread(table, k + 2 * MAX_TERMS)
                a2, b2 = fma(power, x, a2), fma(power, y, b2)
                power = spread(table, k + 3 * MAX_TERMS)
                a3, b3 = fma(power, x, a3), fma(power, y, b3)
                term += row
            to = target + node * row + i
            store(ws, to, a0)
            store(ws, to + lanes, b0)
            store(ws, to + row, a1)
            store(ws, to + row + lanes, b1)
            store(ws, to + 2 * row, a2)
            store(ws, to + 2 * row + lanes, b2)
            store(ws, to + 3 * row, a3)
            store(ws, to + 3 * row + lanes, b3)


@compiled
def _add_outer(ws: Flat, rooms: Rooms, forward: int, n_nodes: int, first: bool) -> None:
    """Add one substep's share of the integral of (pulled-back residual) x (moved point).

    Rows of the result are not padded, so a row's tail reaches into the next row. Columns
    therefore go backwards: what the tail overwrites is written afterwards.
    """
    lanes = lane_count(ws)
    d, row = rooms.dimension, rooms.padded * lanes
    zero = splat(ws, 0.0)
    for i in range(0, d, 2):
        for j in range(rooms.padded - 4, -1, -4):
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            upper = rooms.outer + (i * d + j) * lanes
            lower = upper + d * lanes
            if not first:
                a0, a1 = load(ws, upper), load(ws, upper + lanes)
                a2, a3 = load(ws, upper + 2 * lanes), load(ws, upper + 3 * lanes)
                b0, b1 = load(ws, lower), load(ws, lower + lanes)
                b2, b3 = load(ws, lower + 2 * lanes), load(ws, lower + 3 * lanes)
            u_at, v_at = rooms.backward + i * lanes, forward + j * lanes
            for _ in range(n_nodes):
                u, w = load(ws, u_at), load(ws, u_at + lanes)
                v = load(ws, v_at)
                a0, b0 = fma(u, v, a0), fma(w, v, b0)
                v = load(ws, v_at + lanes)
                a1, b1 = fma(u, v, a1), fma(w, v, b1)
                v = load(ws, v_at + 2 * lanes)
                a2, b2 = fma(u, v, a2), fma(w, v, b2)
                v = load(ws, v_at + 3 * lanes)
                a3, b3 = fma(u, v, a3), fma(w, v, b3)
                u_at += row
                v_at += row
            store_four(ws, upper, lanes, a0, a1, a2, a3)
            store_four(ws, lower, lanes, b0, b1, b2, b3)


@compiled
def _silence_overflowing(ws: Flat, rooms: Rooms) -> float:
    """Zero the generators too large to exponentiate; return the largest norm left."""
    lanes = lane_count(ws)
    largest = 0.0
    for lane in range(lanes):
        norm = np.sqrt(ws[rooms.scratch + NORM * lanes + lane])
        if norm <= MAX_NORM:
            largest = max(largest, norm)
        else:  # also if it is NaN
            ws[rooms.scratch + NORM * lanes + lane] = np.inf
            for ij in range(rooms.dimension * rooms.padded):
                ws[rooms.generator + ij * lanes + lane] = 0.0
                ws[rooms.mirror + ij * lanes + lane] = 0.0
    return largest


@compiled
def pull_back(
    ws: Flat, rooms: Rooms, rule: Quadrature, n_substeps: int, n_nodes: int, source: int
) -> None:
    """Integrate (pulled-back vector) x (moved point) along the path, times the substeps.

    With u in ``source`` the room ``outer`` becomes n O, O = int_0^1 (expm((1-s) A)^T u)
    (expm(s A) z0)^T ds, for which <Psi_m, O> = u . d z1_hat / d c_m for every operator at once.
    """
    row = rooms.padded * lane_count(ws)
    scale = 1.0 / n_substeps
    powers = 0 if n_nodes == rule.few else 2 * (rule.few + 1) * MAX_TERMS
    weighted = powers + (n_nodes + 1) * MAX_TERMS
    for substep in range(n_substeps - 1, -1, -1):
        n_terms = _expand(ws, rooms, rooms.generator, source, scale, rule.precision)
        _blend(ws, rooms, rule.table, weighted, n_nodes + 1, n_terms, rooms.backward)
        last = substep == n_substeps - 1
        forward = rooms.forward + substep * (n_nodes + 1) * row
        _add_outer(ws, rooms, forward, n_nodes, last)
        source = rooms.backward + n_nodes * row


@compiled
def move_points(ws: Flat, rooms: Rooms, rule: Quadrature) -> tuple[int, int]:
    """Transport every pair's point, keeping it at every node of its path.

    [TRANSPORT]  z1_hat = expm(A) z0

    Fills the rooms ``forward`` and ``residual``; gives an infinite norm to generators too large
    to exponentiate, which count as zero.

    Returns:
        The number of substeps, and of quadrature nodes in each.
    """
    lanes = lane_count(ws)
    row = rooms.padded * lanes
    norm = _silence_overflowing(ws, rooms)
    n_substeps = 1
    while norm > NORM_PER_SUBSTEP * n_substeps:
        n_substeps += 2  # odd, so that the middle of the path is a node
    scale = 1.0 / n_substeps
    small = norm * scale <= rule.norm_for_few
    n_nodes = rule.few if small else rule.many
    powers = 0 if small else 2 * (rule.few + 1) * MAX_TERMS
    block = (n_nodes + 1) * row  # the nodes of one substep and its endpoint
    source = rooms.z0
    for to in range(rooms.forward, rooms.forward + n_substeps * block, block):
        n_terms = _expand(ws, rooms, rooms.mirror, source, scale, rule.precision)
        _blend(ws, rooms, rule.table, powers, n_nodes + 1, n_terms, to)
        source = to + n_nodes * row
    for i in range(0, row, lanes):
        store(ws, rooms.residual + i, load(ws, rooms.z1 + i) - load(ws, source + i))
    return n_substeps, n_nodes


@compiled
def measure_objective(ws: Flat, rooms: Rooms) -> None:
    """Write the data term and the penalty of the trial coefficients of every pair."""
    lanes = lane_count(ws)
    data = splat(ws, 0.5) * _square_sum(ws, rooms.residual, rooms.dimension)
    store(ws, rooms.scratch + DATA * lanes, data)
    penalty = splat(ws, 0.0)
    for m in range(rooms.n_operators):
        c = load(ws, rooms.trial + m * lanes)
        size = larger(c, splat(ws, 0.0) - c)
        penalty = fma(load(ws, rooms.weight + m * lanes), size, penalty)
    store(ws, rooms.scratch + PENALTY * lanes, penalty)
