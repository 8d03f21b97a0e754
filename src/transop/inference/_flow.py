"""The transport of a group of pairs and its derivative, all pairs of the group in lock step.

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
    larger,
    load,
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
    """Find the largest size of ``n`` rows, a multiple of four, pair by pair."""
    low, high = size_of(load(rows, start)), size_of(load(rows, start + 1))
    for k in range(start, start + n, 2):
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
def _mirror_generator(ws: Workspace, scale: float) -> None:
    """Divide A by the number of substeps and copy its transpose."""
    d, wide = ws.dimension, ws.wide
    factor = splat(ws.generator, scale)
    for i in range(d):
        for j in range(d):
            entry = factor * load(ws.generator, i * wide + j)
            store(ws.generator, i * wide + j, entry)
            store(ws.mirror, j * wide + i, entry)


@compiled
def _expand(ws: Workspace, matrix: Rows, source: Rows, start: int, precision: float) -> int:
    """List the powers (M^T)^k x of a Taylor series; x starts at a row of ``source``.

    Returns:
        The power of the last term listed: the first one negligible for every pair.
    """
    wide = ws.wide
    for i in range(wide):
        store(ws.terms, i, load(source, start + i))
    limit = splat(ws.terms, precision) * _largest_size(ws.terms, 0, wide)
    k, going, inverse_factorial = 0, True, 1.0
    while going and k < MAX_TERMS - 1:
        k += 1
        inverse_factorial /= k
        multiply_vector(
            Strided(ws.terms, k * wide, 1, 0),
            Strided(matrix, 0, 1, wide),
            Strided(ws.terms, (k - 1) * wide, 0, 1),
            wide,
            ws.dimension,
            False,
        )
        size = splat(ws.terms, inverse_factorial) * _largest_size(ws.terms, k * wide, wide)
        going = any_above(size, limit)
    return k


@compiled
def _blend(
    ws: Workspace, table: Numbers, at: int, n_nodes: int, n_terms: int, target: Rows, start: int
) -> None:
    """Sum the Taylor terms with the powers of every node: the flow at the nodes."""
    multiply_matrix(
        Strided(target, start, ws.wide, 1),
        Strided(table, at, MAX_TERMS, 1),
        Strided(ws.terms, 0, 1, ws.wide),
        n_nodes,
        ws.wide,
        n_terms + 1,
        False,
    )


@compiled
def silence_overflowing(ws: Workspace, generator: Rows) -> float:
    """Zero the generators too large to exponentiate; return the largest norm left."""
    largest = 0.0
    for lane in range(ws.n_lanes):
        norm = np.sqrt(ws.norm[0, lane])
        if norm <= MAX_NORM:
            largest = max(largest, norm)
        else:  # also if it is NaN
            ws.norm[0, lane] = np.inf
            for ij in range(ws.dimension * ws.wide):
                generator[ij, lane] = 0.0
    return largest


@compiled
def move_points(ws: Workspace, rule: Quadrature) -> tuple[int, int]:
    """Transport every pair's point, keeping it at every node of its path.

    [TRANSPORT]  z1_hat = expm(A) z0

    Fills ``forward`` and ``residual``; gives an infinite norm to generators too large to
    exponentiate, which count as zero.

    Returns:
        The number of substeps, and of quadrature nodes in each.
    """
    wide = ws.wide
    norm = silence_overflowing(ws, ws.generator)
    n_substeps = 1
    while norm > NORM_PER_SUBSTEP * n_substeps:
        n_substeps += 2  # odd, so that the middle of the path is a node
    _mirror_generator(ws, 1.0 / n_substeps)
    small = norm <= rule.norm_for_few * n_substeps
    n_nodes = rule.few if small else rule.many
    powers = 0 if small else 2 * (rule.few + 1) * MAX_TERMS
    for i in range(wide):
        store(ws.residual, i, load(ws.z0, i))
    at = 0
    for _ in range(n_substeps):
        n_terms = _expand(ws, ws.mirror, ws.residual, 0, rule.precision)
        _blend(ws, rule.table, powers, n_nodes + 1, n_terms, ws.forward, at)
        at += (n_nodes + 1) * wide
        for i in range(wide):
            store(ws.residual, i, load(ws.forward, at - wide + i))
    for i in range(wide):
        store(ws.residual, i, load(ws.z1, i) - load(ws.residual, i))
    return n_substeps, n_nodes


@compiled
def pull_back(ws: Workspace, rule: Quadrature, n_substeps: int, n_nodes: int) -> None:
    """Differentiate where the point ends, in the direction of ``residual``.

    With u in ``residual``, ``outer`` becomes n O, O = int_0^1 (expm((1-s) A)^T u)
    (expm(s A) z0)^T ds, for which <Psi_m, O> = u . d z1_hat / d c_m for every operator at once.
    """
    wide = ws.wide
    block = (n_nodes + 1) * wide
    powers = 0 if n_nodes == rule.few else 2 * (rule.few + 1) * MAX_TERMS
    weighted = powers + (n_nodes + 1) * MAX_TERMS
    for i in range(wide):
        store(ws.backward, n_nodes * wide + i, load(ws.residual, i))
    for substep in range(n_substeps - 1, -1, -1):
        n_terms = _expand(ws, ws.generator, ws.backward, n_nodes * wide, rule.precision)
        _blend(ws, rule.table, weighted, n_nodes + 1, n_terms, ws.backward, 0)
        multiply_matrix(
            Strided(ws.outer, 0, 1, wide),
            Strided(ws.forward, substep * block, 1, wide),
            Strided(ws.backward, 0, 1, wide),
            wide,
            (ws.dimension + 1) // 2 * 2,
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
