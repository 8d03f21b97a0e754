"""One pair at a time, for many dimensions: the compiler's vectors run along the latent space.

With 64 dimensions the matrices of eight pairs no longer fit the fast caches, and eight pairs
together use nearly all operators. One pair needs an eighth of the memory and only its own
operators. Rows have one number here, so the descent and the bookkeeping are those of groups.

Operators are block diagonal: ``dimension`` is cut into blocks of ``wide``, a multiple of sixteen.
Each block is a flow of its own; gradients and Gram matrices add up over blocks.
"""

import numpy as np

from transop.inference._descent import minimise_model
from transop.inference._flow import measure_objective, move_points, plan_path, pull_back
from transop.inference._iteration import accept_or_reject, make_range_solver, note_promises
from transop.inference._model import (
    CANDIDATE_MARGIN,
    damp_gram,
    measure_violation,
    stretch_pushes,
)
from transop.inference._product import Strided, multiply_vector
from transop.inference._simd import Numbers, Rows, fast, inlined, long_rows, number
from transop.inference._workspace import (
    OPERATORS_AT_ONCE,
    Blocks,
    Progress,
    Quadrature,
    Workspace,
)

# Share of the residual's own curvature in the model: all of it would often make the model concave.
RESIDUAL_SHARE = 0.5
NEAR = 0.01  # data term, at unit length: a residual this small bends nothing
SHORT_STEP = 0.03  # share of the objective: a promise below it changes the curvature little
LEAST_CURVATURE = 1e-2  # of a pivot, relative to the Gram matrix, with that share taken off


@fast
def _dots(
    matrix: Rows, at: int, stride: int, n: int, x: Rows, x_at: int, out: Rows, to: int
) -> None:
    """Write the inner products of x with ``n`` rows, a multiple of four, of length ``stride``."""
    for j in range(0, n, 4):
        k = at + j * stride
        s0 = s1 = s2 = s3 = number(x, 0.0)
        for i in range(stride):
            entry = x[x_at + i, 0]
            s0 += entry * matrix[k + i, 0]
            s1 += entry * matrix[k + stride + i, 0]
            s2 += entry * matrix[k + 2 * stride + i, 0]
            s3 += entry * matrix[k + 3 * stride + i, 0]
        out[to + j, 0], out[to + j + 1, 0] = s0, s1
        out[to + j + 2, 0], out[to + j + 3, 0] = s2, s3


@fast
def _form_generator(ws: Workspace, blocks: Blocks, listed: Numbers) -> None:
    """Add up A^T = sum_m c_m Psi_m^T of every block; keep the largest |A|^2 of a block.

    ``listed`` has room for a second list, behind that of the candidates, which are kept.
    """
    size, n_blocks = ws.wide * ws.wide, ws.n_blocks
    first, largest = ws.n_operators + OPERATORS_AT_ONCE, 0.0
    for b in range(n_blocks):
        at, end = b * size, first
        for m in range(ws.n_operators):
            if ws.trial[m, 0] != 0 and blocks.acts[m * n_blocks + b] != 0:
                listed[end] = m
                end += 1
        for k in range(end, end + 3):
            listed[k] = ws.n_operators  # its coefficient is zero
        for ij in range(at, at + size):
            ws.mirror[ij, 0] = 0
        for k in range(first, end, 4):
            m0, m1, m2, m3 = listed[k], listed[k + 1], listed[k + 2], listed[k + 3]
            c0, c1, c2, c3 = ws.trial[m0, 0], ws.trial[m1, 0], ws.trial[m2, 0], ws.trial[m3, 0]
            p0, p1 = (m0 * n_blocks + b) * size, (m1 * n_blocks + b) * size
            p2, p3 = (m2 * n_blocks + b) * size, (m3 * n_blocks + b) * size
            for ij in range(size):
                low = c0 * blocks.columns[p0 + ij, 0] + c1 * blocks.columns[p1 + ij, 0]
                high = c2 * blocks.columns[p2 + ij, 0] + c3 * blocks.columns[p3 + ij, 0]
                ws.mirror[at + ij, 0] += low + high
        square = number(ws.mirror, 0.0)
        for ij in range(at, at + size):
            square += ws.mirror[ij, 0] * ws.mirror[ij, 0]
        largest = max(largest, float(square)) if square == square else np.inf
    ws.norm[0, 0] = largest


@fast
def _turn_mirror(ws: Workspace, n_substeps: int) -> None:
    """Divide A^T by the number of substeps; copy its transpose A, eight columns at a time."""
    wide = ws.wide
    factor = number(ws.mirror, 1.0 / n_substeps)
    for at in range(0, ws.dimension * wide, wide * wide):
        if n_substeps > 1:
            for ij in range(at, at + wide * wide):
                ws.mirror[ij, 0] *= factor
        for j in range(0, wide, 8):
            for i in range(wide):
                for k in range(8):
                    ws.generator[at + i * wide + j + k, 0] = ws.mirror[at + (j + k) * wide + i, 0]


@fast
def _differentiate(ws: Workspace, blocks: Blocks, m: int, n_substeps: int) -> None:
    """Write the gradient -<Psi_m, O> for one operator."""
    size, n_blocks = ws.wide * ws.wide, ws.n_blocks
    total = number(ws.outer, 0.0)
    for b in range(n_blocks):
        if blocks.acts[m * n_blocks + b] != 0:
            at, entry = b * size, (m * n_blocks + b) * size
            for ij in range(size):
                total += ws.outer[at + ij, 0] * blocks.columns[entry + ij, 0]
    ws.gradient[m, 0] = -total / n_substeps


@inlined
def _push(ws: Workspace, columns: Rows, entry: int, point: int, to: int) -> None:
    """Write the product of a block of an operator and a point of ``forward`` to ``pushes``."""
    multiply_vector(
        Strided(long_rows(ws.pushes), to * ws.long // ws.wide, 1, 0),
        Strided(long_rows(columns), entry * ws.long // ws.wide, 1, ws.long),
        Strided(ws.forward, point, 0, 1),
        ws.long,
        ws.wide,
        False,
    )


@fast
def _consider(
    ws: Workspace, blocks: Blocks, candidates: Numbers, m: int, n: int, middle: int, stride: int
) -> int:
    """List an operator as candidate ``n`` if it is used or wanted; return how many there are.

    Writes Psi_m v and Psi_m^T u, where v is the point and u the residual half way along the path.
    ``middle`` is the node of v in the first block, ``stride`` the nodes of a block.
    """
    wanted = abs(ws.gradient[m, 0]) > CANDIDATE_MARGIN * ws.weight[m, 0]
    if not wanted and ws.trial[m, 0] == 0:
        return n
    candidates[n] = m
    ws.allowed[n, 0] = ws.weight[m, 0]
    wide, n_blocks = ws.wide, ws.n_blocks
    for b in range(n_blocks):
        start, to = b * wide, n * ws.dimension + b * wide
        if blocks.acts[m * n_blocks + b] == 0:
            for i in range(to, to + wide):
                ws.pushes[i, 0] = ws.returns[i, 0] = 0
            continue
        entry, node = (m * n_blocks + b) * wide * wide, middle + b * stride
        _push(ws, blocks.columns, entry, node * wide, to)
        if ws.data[0, 0] > NEAR:
            _dots(blocks.columns, entry, wide, wide, ws.pulled, start, ws.returns, to)
    return n + 1


@fast
def _pad_candidates(ws: Workspace, candidates: Numbers, n: int) -> int:
    """Fill the list up to a multiple of four with an operator that moves nothing."""
    n4 = (n + 3) // 4 * 4
    for k in range(n, n4):
        candidates[k] = ws.n_operators
        for i in range(k * ws.dimension, (k + 1) * ws.dimension):
            ws.pushes[i, 0] = ws.returns[i, 0] = 0
    return n4


@fast
def _form_gram(ws: Workspace, n: int) -> None:
    """Multiply the columns pairwise."""
    d = ws.dimension
    n4 = (n + 3) // 4 * 4
    for a in range(n4):
        _dots(ws.columns, 0, d, a // 4 * 4 + 4, ws.columns, a * d, ws.gram, a * n4)
        for b in range(a):
            ws.gram[b * n4 + a, 0] = ws.gram[a * n4 + b, 0]


@fast
def _bend_model(ws: Workspace, n: int) -> None:
    """Subtract a share of the residual's curvature, r . d^2 z1_hat / dc_a dc_b, from the model.

    Half way along the path it is (u . Psi_a Psi_b v + u . Psi_b Psi_a v) / 2. Gauss-Newton leaves
    it out, and zig-zags where a path ends far from its target. Left out here too where the model
    would not be convex.
    """
    d = ws.dimension
    n4 = (n + 3) // 4 * 4
    half = number(ws.gram, RESIDUAL_SHARE / 2)
    for a in range(n4):
        _dots(ws.pushes, 0, d, n4, ws.returns, a * d, ws.factor, a * n4)
    for a in range(n):
        for b in range(a + 1):
            both = ws.factor[a * n4 + b, 0] + ws.factor[b * n4 + a, 0]
            bent = ws.gram[a * n4 + b, 0] - half * both
            ws.factor[a * n4 + b, 0] = ws.factor[b * n4 + a, 0] = bent
        ws.pivot[a, 0] = ws.factor[a * n4 + a, 0]
    if not _is_convex(ws, n, n4):
        return
    for a in range(n):
        for b in range(a):
            ws.gram[a * n4 + b, 0] = ws.gram[b * n4 + a, 0] = ws.factor[b * n4 + a, 0]
        ws.gram[a * n4 + a, 0] = ws.pivot[a, 0]


@fast
def _is_convex(ws: Workspace, n: int, n4: int) -> bool:
    """Eliminate in the lower triangle of ``factor`` and look for small pivots."""
    for j in range(n):
        pivot = ws.factor[j * n4 + j, 0]
        if not pivot > LEAST_CURVATURE * ws.gram[j * n4 + j, 0]:
            return False
        for k in range(j + 1, n):
            ws.turn[k, 0] = ws.factor[k * n4 + j, 0]
        for i in range(j + 1, n):
            share = ws.turn[i, 0] / pivot
            for k in range(j + 1, i + 1):
                ws.factor[i * n4 + k, 0] -= share * ws.turn[k, 0]
    return True


@fast
def _misses_none(ws: Workspace, candidates: Numbers, n: int) -> bool:
    """Tell whether all operators that are wanted are among the candidates."""
    k = 0
    for m in range(ws.n_operators):
        if k < n and candidates[k] == m:
            k += 1
        elif abs(ws.gradient[m, 0]) > ws.weight[m, 0]:
            return False
    return True


@fast
def _model(
    ws: Workspace,
    state: Progress,
    blocks: Blocks,
    candidates: Numbers,
    n_substeps: int,
    n_nodes: int,
) -> int:
    """Write gradient and Gram matrix, without damping; return the number of candidates.

    The gradient is exact at every step, the curvature only steers: it is kept where the last
    step was too short to change it.
    """
    kept, n = int(state.listed[0]), 0
    keep = kept > 0 and state.hoped[0] <= SHORT_STEP * state.objective[0]
    middle = n_substeps // 2 * (n_nodes + 1) + n_nodes // 2
    stride = n_substeps * (n_nodes + 1)
    for m in range(ws.n_operators):
        _differentiate(ws, blocks, m, n_substeps)
        if not keep:  # right away, while the operator is in the fastest cache
            n = _consider(ws, blocks, candidates, m, n, middle, stride)
    if keep and _misses_none(ws, candidates, kept):
        n4 = (kept + 3) // 4 * 4
        for a in range(kept):
            ws.gram[a * n4 + a, 0] = ws.curvature[a, 0]
        measure_violation(ws, candidates, kept)
        return kept
    if keep:
        for m in range(ws.n_operators):
            n = _consider(ws, blocks, candidates, m, n, middle, stride)
    stretch_pushes(ws, _pad_candidates(ws, candidates, n), n_substeps)
    _form_gram(ws, n)
    measure_violation(ws, candidates, n)
    if ws.data[0, 0] > NEAR:
        _bend_model(ws, n)
    n4 = (n + 3) // 4 * 4
    for a in range(n):
        ws.curvature[a, 0] = ws.gram[a * n4 + a, 0]
    state.listed[0] = n
    return n


@fast
def _step(
    ws: Workspace, state: Progress, blocks: Blocks, candidates: Numbers, rule: Quadrature
) -> None:
    """Evaluate the trial, then propose the next one by the small l1 problem."""
    _form_generator(ws, blocks, candidates)
    n_substeps, n_nodes = plan_path(ws, rule, ws.mirror)
    _turn_mirror(ws, n_substeps)
    move_points(ws, rule, n_substeps, n_nodes)
    measure_objective(ws)
    accept_or_reject(ws, state, rule.rounding)
    for m in range(ws.n_operators):
        ws.rejected[m, 0] = ws.trial[m, 0]
    if state.accepted[0] > 0.0:
        pull_back(ws, rule, n_substeps, n_nodes)
        n = _model(ws, state, blocks, candidates, n_substeps, n_nodes)
        damp_gram(ws, n, rule.rounding * 1e-3)
        minimise_model(ws, candidates, n, rule.rounding)
    note_promises(ws, state)


solve_single_range = make_range_solver(_step)
