"""The transport of a group of pairs and its derivative, all pairs of the group in lock step."""

import numpy as np

from transop.inference._lanes import (
    compiled,
    fma,
    lane_count,
    larger,
    load,
    splat,
    spread,
    store,
)
from transop.inference._rooms import (
    DATA,
    MAX_NORM,
    MAX_TERMS,
    NORM,
    NORM_PER_SUBSTEP,
    PENALTY,
    Flat,
    Quadrature,
    Rooms,
)


@compiled
def pad_list(operators: Flat, n: int, zero_operator: int) -> None:
    """Fill a list up to a multiple of four with the operator that moves nothing."""
    for k in range(n, (n + 3) // 4 * 4):
        operators[k] = zero_operator


@compiled
def list_live(ws: Flat, rooms: Rooms, live: Flat) -> int:
    """List the operators that the trial of some pair uses."""
    lanes = lane_count(ws)
    n = 0
    for m in range(rooms.n_operators):
        for lane in range(lanes):
            if ws[rooms.trial + m * lanes + lane] != 0.0:
                live[n] = m
                n += 1
                break
    pad_list(live, n, rooms.n_operators)
    return n


@compiled
def form_generator(ws: Flat, rooms: Rooms, psi: Flat, live: Flat, n_live: int) -> None:
    """Add up A = sum_m c_m Psi_m over the operators some pair uses; measure its norm."""
    lanes = lane_count(ws)
    size = rooms.dimension * rooms.dimension
    if n_live == 0:
        for ij in range(size):
            store(ws, rooms.generator + ij * lanes, splat(ws, 0.0))
    for k in range(0, n_live, 4):
        c0 = load(ws, rooms.trial + live[k] * lanes)
        c1 = load(ws, rooms.trial + live[k + 1] * lanes)
        c2 = load(ws, rooms.trial + live[k + 2] * lanes)
        c3 = load(ws, rooms.trial + live[k + 3] * lanes)
        p0, p1 = live[k] * rooms.stride, live[k + 1] * rooms.stride
        p2, p3 = live[k + 2] * rooms.stride, live[k + 3] * rooms.stride
        for ij in range(size):
            at = rooms.generator + ij * lanes
            total = c0 * spread(psi, p0 + ij)
            if k > 0:
                total = total + load(ws, at)
            total = fma(c1, spread(psi, p1 + ij), total)
            total = fma(c2, spread(psi, p2 + ij), total)
            store(ws, at, fma(c3, spread(psi, p3 + ij), total))
    square = splat(ws, 0.0)
    for ij in range(size):
        entry = load(ws, rooms.generator + ij * lanes)
        square = fma(entry, entry, square)
    store(ws, rooms.scratch + NORM * lanes, square)


@compiled
def _multiply(
    ws: Flat, matrix: int, down: int, across: int, source: int, target: int, n: int, scale: float
) -> None:
    """Write scale * A x for one step length down the rows and one across the columns of A."""
    lanes = lane_count(ws)
    factor = splat(ws, scale)
    zero = splat(ws, 0.0)
    i = 0
    while i + 4 <= n:
        y0, y1, y2, y3 = zero, zero, zero, zero
        at = matrix + i * down
        for j in range(n):
            x = load(ws, source + j * lanes)
            y0 = fma(load(ws, at), x, y0)
            y1 = fma(load(ws, at + down), x, y1)
            y2 = fma(load(ws, at + 2 * down), x, y2)
            y3 = fma(load(ws, at + 3 * down), x, y3)
            at += across
        to = target + i * lanes
        store(ws, to, factor * y0)
        store(ws, to + lanes, factor * y1)
        store(ws, to + 2 * lanes, factor * y2)
        store(ws, to + 3 * lanes, factor * y3)
        i += 4
    while i + 2 <= n:
        y0, y1 = zero, zero
        at = matrix + i * down
        for j in range(n):
            x = load(ws, source + j * lanes)
            y0 = fma(load(ws, at), x, y0)
            y1 = fma(load(ws, at + down), x, y1)
            at += across
        store(ws, target + i * lanes, factor * y0)
        store(ws, target + (i + 1) * lanes, factor * y1)
        i += 2
    if i < n:
        y0 = zero
        at = matrix + i * down
        for j in range(n):
            y0 = fma(load(ws, at), load(ws, source + j * lanes), y0)
            at += across
        store(ws, target + i * lanes, factor * y0)


@compiled
def _expand(
    ws: Flat, rooms: Rooms, source: int, transposed: bool, n_terms: int, scale: float
) -> None:
    """List the Taylor terms (scale A)^k x / k!, of A or of its transpose."""
    lanes = lane_count(ws)
    d = rooms.dimension
    row = d * lanes
    for i in range(d):
        store(ws, rooms.terms + i * lanes, load(ws, source + i * lanes))
    down, across = (lanes, row) if transposed else (row, lanes)
    for k in range(1, n_terms + 1):
        at = rooms.terms + k * row
        _multiply(ws, rooms.generator, down, across, at - row, at, d, scale / k)


@compiled
def _blend(ws: Flat, rooms: Rooms, table: Flat, at: int, n_terms: int, target: int) -> None:
    """Sum the Taylor terms with the powers of one node: the flow at that node."""
    lanes = lane_count(ws)
    d = rooms.dimension
    row = d * lanes
    zero = splat(ws, 0.0)
    i = 0
    while i + 2 <= d:
        y0, y1 = zero, zero
        term = rooms.terms + i * lanes
        for k in range(n_terms + 1):
            power = spread(table, at + k)
            y0 = fma(power, load(ws, term), y0)
            y1 = fma(power, load(ws, term + lanes), y1)
            term += row
        store(ws, target + i * lanes, y0)
        store(ws, target + (i + 1) * lanes, y1)
        i += 2
    if i < d:
        y0 = zero
        for k in range(n_terms + 1):
            y0 = fma(spread(table, at + k), load(ws, rooms.terms + k * row + i * lanes), y0)
        store(ws, target + i * lanes, y0)


@compiled
def _add_outer(ws: Flat, rooms: Rooms, forward: int, n_nodes: int, first: bool) -> None:
    """Add one substep's share of the integral of (pulled-back residual) x (moved point)."""
    lanes = lane_count(ws)
    d = rooms.dimension
    row = d * lanes
    zero = splat(ws, 0.0)
    for i in range(d):
        j = 0
        while j < d:
            to = rooms.outer + (i * d + j) * lanes
            wide = min(4, d - j)
            # A narrow tail repeats its last column; the repeated sums are not stored.
            o1, o2, o3 = min(1, wide - 1) * lanes, min(2, wide - 1) * lanes, (wide - 1) * lanes
            s0, s1, s2, s3 = zero, zero, zero, zero
            if not first:
                s0, s1 = load(ws, to), load(ws, to + o1)
                s2, s3 = load(ws, to + o2), load(ws, to + o3)
            u_at, v_at = rooms.backward + i * lanes, forward + j * lanes
            for _ in range(n_nodes):
                u = load(ws, u_at)
                s0 = fma(u, load(ws, v_at), s0)
                s1 = fma(u, load(ws, v_at + o1), s1)
                s2 = fma(u, load(ws, v_at + o2), s2)
                s3 = fma(u, load(ws, v_at + o3), s3)
                u_at += row
                v_at += row
            store(ws, to, s0)
            store(ws, to + o1, s1)
            store(ws, to + o2, s2)
            store(ws, to + o3, s3)
            j += 4


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
            for ij in range(rooms.dimension * rooms.dimension):
                ws[rooms.generator + ij * lanes + lane] = 0.0
    return largest


@compiled
def _count_terms(norm: float, precision: float) -> int:
    """Count the Taylor terms until norm^k / k! is negligible."""
    size = 1.0
    k = 0
    while size > precision and k < MAX_TERMS - 1:
        k += 1
        size *= norm / k
    return k


@compiled
def differentiate_flow(ws: Flat, rooms: Rooms, rule: Quadrature) -> tuple[int, float]:
    """Transport every pair's point and integrate the derivative along its path.

    [TRANSPORT]  z1_hat = expm(A) z0, and with r = z1 - z1_hat the matrix
    O = int_0^1 (expm((1-s) A)^T r) (expm(s A) z0)^T ds, for which
    <Psi_m, O> = r . d z1_hat / d c_m for every operator at once.

    Fills the rooms ``endpoint``, ``residual``, ``outer`` and ``middle``; gives an
    infinite norm to generators too large to exponentiate, which count as zero.

    Returns:
        Where the moved point at the middle of the path starts, and the factor that
        ``outer`` still lacks (one over the number of substeps).
    """
    lanes = lane_count(ws)
    d = rooms.dimension
    row = d * lanes
    norm = _silence_overflowing(ws, rooms)
    n_substeps = 1
    while norm > NORM_PER_SUBSTEP * n_substeps:
        n_substeps += 2  # odd, so that the middle of the path is a node
    norm /= n_substeps
    small = norm <= rule.norm_for_few
    n_nodes = rule.few if small else rule.many
    one = (rule.many if small else 2 * rule.many + 1) * MAX_TERMS  # row of the endpoint
    powers = one - rule.many * MAX_TERMS
    weighted = (2 * rule.many + 2 + (0 if small else rule.many)) * MAX_TERMS
    n_terms = _count_terms(norm, rule.precision)
    scale = 1.0 / n_substeps

    source = rooms.z0
    for substep in range(n_substeps):
        _expand(ws, rooms, source, False, n_terms, scale)
        for k in range(n_nodes):
            to = rooms.forward + (substep * n_nodes + k) * row
            _blend(ws, rooms, rule.table, powers + k * MAX_TERMS, n_terms, to)
        _blend(ws, rooms, rule.table, one, n_terms, rooms.endpoint)
        source = rooms.endpoint
    for i in range(d):
        gap = load(ws, rooms.z1 + i * lanes) - load(ws, rooms.endpoint + i * lanes)
        store(ws, rooms.residual + i * lanes, gap)

    source = rooms.residual
    for substep in range(n_substeps - 1, -1, -1):
        _expand(ws, rooms, source, True, n_terms, scale)
        for k in range(n_nodes):
            to = rooms.backward + k * row
            _blend(ws, rooms, rule.table, weighted + k * MAX_TERMS, n_terms, to)
        last = substep == n_substeps - 1
        _add_outer(ws, rooms, rooms.forward + substep * n_nodes * row, n_nodes, last)
        if substep == n_substeps // 2:
            centre = n_nodes // 2
            share = splat(ws, -0.5 / rule.table[weighted + centre * MAX_TERMS])
            for i in range(d):
                u = load(ws, rooms.backward + centre * row + i * lanes)
                store(ws, rooms.middle + i * lanes, share * u)
        if substep > 0:
            _blend(ws, rooms, rule.table, one, n_terms, rooms.endpoint)
            source = rooms.endpoint
    return rooms.forward + (n_substeps // 2 * n_nodes + n_nodes // 2) * row, scale


@compiled
def measure_objective(ws: Flat, rooms: Rooms) -> None:
    """Write the data term and the penalty of the trial coefficients of every pair."""
    lanes = lane_count(ws)
    data = splat(ws, 0.0)
    for i in range(rooms.dimension):
        gap = load(ws, rooms.residual + i * lanes)
        data = fma(gap, gap, data)
    store(ws, rooms.scratch + DATA * lanes, splat(ws, 0.5) * data)
    penalty = splat(ws, 0.0)
    for m in range(rooms.n_operators):
        c = load(ws, rooms.trial + m * lanes)
        size = larger(c, splat(ws, 0.0) - c)
        penalty = fma(load(ws, rooms.weight + m * lanes), size, penalty)
    store(ws, rooms.scratch + PENALTY * lanes, penalty)
