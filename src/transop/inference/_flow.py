"""The transport of pairs and its derivative: of a group in lock step, or of one pair by blocks.

The number of substeps, of quadrature nodes and of Taylor terms belongs to the group: it is what
its most demanding pair needs. The other pairs of the group get more precision than they asked
for, so the result of a pair depends on the others only by rounding.
"""

from typing import Any

import numpy as np

from transop.inference._product import Strided, multiply_matrix, multiply_vector
from transop.inference._simd import (
    Numbers,
    Rows,
    any_above,
    compiled,
    fma,
    inlined,
    is_long,
    larger,
    largest_lane,
    load,
    long_rows,
    size_of,
    splat,
    store,
)
from transop.inference._workspace import (
    MAX_NORM,
    MAX_TERMS,
    NORM_PER_SUBSTEP,
    OPERATORS_AT_ONCE,
    Dictionary,
    Quadrature,
    Workspace,
)


@inlined
def _square_sum(rows: Rows, start: int, n: int) -> Any:
    """Add up the squares of ``n`` rows, in four sums that do not wait for each other."""
    zero = splat(rows, 0.0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    k = start
    while k + 4 <= start + n:
        x0, x1, x2, x3 = load(rows, k), load(rows, k + 1), load(rows, k + 2), load(rows, k + 3)
        s0, s1 = fma(x0, x0, s0), fma(x1, x1, s1)
        s2, s3 = fma(x2, x2, s2), fma(x3, x3, s3)
        k += 4
    while k < start + n:
        x0 = load(rows, k)
        s0 = fma(x0, x0, s0)
        k += 1
    return (s0 + s1) + (s2 + s3)


@inlined
def _largest_size(rows: Rows, start: int, n: int) -> Any:
    """Find the largest size of ``n`` rows, lane by lane."""
    low = high = size_of(load(rows, start))
    for k in range(start + n % 2, start + n, 2):
        low, high = larger(low, size_of(load(rows, k))), larger(high, size_of(load(rows, k + 1)))
    return larger(low, high)


@inlined
def _list_used_blocks(ws: Workspace, blocks: Numbers) -> int:
    """List the blocks of eight operators of which some pair's trial uses one."""
    n = 0
    for m in range(0, ws.n_operators, OPERATORS_AT_ONCE):
        square = _square_sum(ws.trial, m, OPERATORS_AT_ONCE)
        if any_above(square, splat(ws.trial, 0.0)):
            blocks[n] = m // OPERATORS_AT_ONCE
            n += 1
    return n


@compiled
def form_generator(ws: Workspace, dictionary: Dictionary, blocks: Numbers) -> None:
    """Add up A = sum_m c_m Psi_m over the operators some pair uses; measure |A|^2."""
    d, wide = ws.dimension, ws.wide
    n_blocks = _list_used_blocks(ws, blocks)
    zero = splat(ws.generator, 0.0)
    for i in range(d):  # row by row, so that a row waits in the fastest cache for all operators
        if n_blocks == 0:
            for j in range(i * wide, (i + 1) * wide):
                store(ws.generator, j, zero)
        for k in range(n_blocks):
            block = blocks[k]
            entry = (block * d + i) * wide * OPERATORS_AT_ONCE
            multiply_vector(
                Strided(ws.generator, i * wide, 1, 0),
                Strided(dictionary.interleaved, entry, OPERATORS_AT_ONCE, 1),
                Strided(ws.trial, block * OPERATORS_AT_ONCE, 0, 1),
                wide,
                OPERATORS_AT_ONCE,
                k > 0,
            )
    store(ws.norm, 0, _square_sum(ws.generator, 0, d * wide))


@compiled
def mirror_generator(ws: Workspace, n_substeps: int) -> None:
    """Divide A by the number of substeps and copy its transpose."""
    d, wide = ws.dimension, ws.wide
    factor = splat(ws.generator, 1.0 / n_substeps)
    for i in range(d):
        for j in range(d):
            entry = factor * load(ws.generator, i * wide + j)
            store(ws.generator, i * wide + j, entry)
            store(ws.mirror, j * wide + i, entry)


@inlined
def _copy(source: Rows, start: int, target: Rows, to: int, n: int) -> None:
    for i in range(n):
        store(target, to + i, load(source, start + i))


@compiled
def _expand(
    ws: Workspace, matrix: Rows, block: int, source: Rows, start: int, precision: float
) -> int:
    """List the powers (M^T)^k x of a Taylor series; x starts at a long row of ``source``.

    Returns:
        The power of the last term listed: the first one negligible for every pair.
    """
    terms, n = long_rows(ws.terms), ws.long
    _copy(source, start, terms, 0, n)
    largest = _largest_size(terms, 0, n)
    if is_long(terms):  # all lanes belong to the same pair
        largest = largest_lane(largest)
    limit = splat(terms, precision) * largest
    k, going, inverse_factorial = 0, True, 1.0
    while going and k < MAX_TERMS - 1:
        k += 1
        inverse_factorial /= k
        multiply_vector(
            Strided(terms, k * n, 1, 0),
            Strided(long_rows(matrix), block * ws.depth * n, 1, n),
            Strided(ws.terms, (k - 1) * ws.wide, 0, 1),
            n,
            ws.depth,
            False,
        )
        size = splat(terms, inverse_factorial) * _largest_size(terms, k * n, n)
        going = any_above(size, limit)
    return k


@compiled
def _blend(
    ws: Workspace, table: Numbers, at: int, n_nodes: int, n_terms: int, target: Rows, start: int
) -> None:
    """Sum the Taylor terms with the powers of every node: the flow at the nodes."""
    multiply_matrix(
        Strided(target, start, ws.long, 1),
        Strided(table, at, MAX_TERMS, 1),
        Strided(long_rows(ws.terms), 0, 1, ws.long),
        n_nodes,
        ws.long,
        n_terms + 1,
        False,
    )


@compiled
def plan_path(ws: Workspace, rule: Quadrature, matrix: Rows) -> tuple[int, int]:
    """Choose the number of substeps, and of quadrature nodes in each.

    Zeroes the generators in ``matrix`` that are too large to exponentiate; their norm becomes
    infinite.
    """
    largest = 0.0
    for lane in range(ws.n_lanes):
        norm = np.sqrt(ws.norm[0, lane])
        if norm <= MAX_NORM:
            largest = max(largest, norm)
        else:  # also if it is NaN
            ws.norm[0, lane] = np.inf
            for ij in range(ws.dimension * ws.wide):
                matrix[ij, lane] = 0.0
    n_substeps = 1
    while largest > NORM_PER_SUBSTEP * n_substeps:
        n_substeps += 2  # odd, so that the middle of the path is a node
    return n_substeps, rule.few if largest <= rule.norm_for_few * n_substeps else rule.many


@compiled
def move_points(ws: Workspace, rule: Quadrature, n_substeps: int, n_nodes: int) -> None:
    """Transport every pair's point, keeping it at every node of its path.

    [TRANSPORT]  z1_hat = expm(A) z0

    Fills ``forward``, block by block and substep by substep, and ``residual``.
    """
    n = ws.long
    powers = 0 if n_nodes == rule.few else 2 * (rule.few + 1) * MAX_TERMS
    z0, z1 = long_rows(ws.z0), long_rows(ws.z1)
    forward, residual = long_rows(ws.forward), long_rows(ws.residual)
    at = 0
    for block in range(ws.n_blocks):
        start = block * n
        _copy(z0, start, residual, start, n)
        for _ in range(n_substeps):
            n_terms = _expand(ws, ws.mirror, block, residual, start, rule.precision)
            _blend(ws, rule.table, powers, n_nodes + 1, n_terms, forward, at)
            at += (n_nodes + 1) * n
            _copy(forward, at - n, residual, start, n)
    for i in range(ws.n_blocks * n):
        store(residual, i, load(z1, i) - load(residual, i))


@compiled
def pull_back(ws: Workspace, rule: Quadrature, n_substeps: int, n_nodes: int) -> None:
    """Differentiate where the point ends, in the direction of ``residual``.

    With u in ``residual``, ``outer`` becomes n O, O = int_0^1 (expm((1-s) A)^T u)
    (expm(s A) z0)^T ds, for which <Psi_m, O> = u . d z1_hat / d c_m for every operator at once.
    Of one pair it becomes n O^T, and ``pulled`` what u is half way.
    """
    n, wide = ws.long, ws.wide
    powers = 0 if n_nodes == rule.few else 2 * (rule.few + 1) * MAX_TERMS
    weighted = powers + (n_nodes + 1) * MAX_TERMS
    backward, residual = long_rows(ws.backward), long_rows(ws.residual)
    outer, pulled = long_rows(ws.outer), long_rows(ws.pulled)
    alone = is_long(outer)
    half = n_nodes // 2
    weight = splat(pulled, rule.table[weighted + half * MAX_TERMS])
    for block in range(ws.n_blocks):
        start = block * n
        _copy(residual, start, backward, n_nodes * n, n)
        for substep in range(n_substeps - 1, -1, -1):
            n_terms = _expand(ws, ws.generator, block, backward, n_nodes * n, rule.precision)
            _blend(ws, rule.table, weighted, n_nodes + 1, n_terms, backward, 0)
            if alone and substep == n_substeps // 2:
                for i in range(n):
                    store(pulled, start + i, load(backward, half * n + i) / weight)
            node = (block * n_substeps + substep) * (n_nodes + 1)
            multiply_matrix(
                Strided(outer, block * ws.depth * n, n if alone else 1, 1 if alone else wide),
                Strided(ws.forward, node * wide, 1, wide),
                Strided(backward, 0, 1, n),
                wide,
                n if alone else (ws.depth + 1) // 2 * 2,
                n_nodes,
                substep < n_substeps - 1,
            )


@compiled
def measure_objective(ws: Workspace) -> None:
    """Write the data term and the penalty of the trial coefficients of every pair."""
    store(ws.data, 0, splat(ws.data, 0.5) * _square_sum(ws.residual, 0, ws.dimension))
    penalty = splat(ws.penalty, 0.0)
    for m in range(ws.n_operators):
        penalty = fma(load(ws.weight, m), size_of(load(ws.trial, m)), penalty)
    store(ws.penalty, 0, penalty)
