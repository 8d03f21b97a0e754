"""The small l1 problem of one Gauss-Newton step, solved for a group of pairs in lock step.

``width`` is the number of candidates, rounded up to a multiple of four: the row length of the
Gram matrix. Candidates beyond the last one have no slope, no weight and no curvature.
"""

from typing import Any

from transop.inference._product import Strided, multiply_vector
from transop.inference._simd import (
    Numbers,
    any_above,
    compiled,
    fma,
    inlined,
    larger,
    load,
    size_of,
    smaller,
    splat,
    store,
    where_positive,
)
from transop.inference._workspace import Workspace

MAX_SWEEPS = 24
PLAIN_SWEEPS = 8  # sweeps before the first jump; most pairs need no more
SWEEP_SHARE = 0.02  # a pair stops when a sweep adds less than this share of its progress so far
LEAST_PIVOT = 32.0  # rounding units of the diagonal: pivots below are rounding error


@compiled
def _prepare(ws: Workspace, candidates: Numbers, n: int, width: int) -> None:
    """Gather slopes and coefficients of the candidates; turn weights into thresholds."""
    zero = splat(ws.slope, 0.0)
    for k in range(n):
        m = candidates[k]
        store(ws.slope, k, load(ws.gradient, m))
        store(ws.sought, k, load(ws.trial, m))
        inverse = load(ws.inverse, k)
        store(ws.threshold, k, inverse * load(ws.allowed, k))
        store(ws.inverse, k, zero - inverse)
    for k in range(n, width):
        store(ws.slope, k, zero)
        store(ws.sought, k, zero)
        store(ws.threshold, k, zero)
        store(ws.allowed, k, zero)
        store(ws.inverse, k, zero)


@inlined
def _move(ws: Workspace, k: int, slope: Any) -> Any:
    """Set one coefficient to its best value given the others; return the change."""
    threshold = load(ws.threshold, k)
    old = load(ws.sought, k)
    goal = fma(slope, load(ws.inverse, k), old)
    new = goal - smaller(larger(goal, splat(ws.sought, 0.0) - threshold), threshold)
    store(ws.sought, k, new)
    return new - old


@compiled
def _sweep(ws: Workspace, width: int) -> Any:
    """Move every candidate once; return the moves squared, weighted by curvature.

    Goes in fours: within a four the slopes are kept up to date in registers, all others hear of
    four moves at once.
    """
    progress = splat(ws.slope, 0.0)
    for k in range(0, width, 4):
        g0, g1 = k * width + k, (k + 1) * width + k
        g2, g3 = (k + 2) * width + k, (k + 3) * width + k
        s1, s2, s3 = load(ws.slope, k + 1), load(ws.slope, k + 2), load(ws.slope, k + 3)
        m0 = _move(ws, k, load(ws.slope, k))
        s1 = fma(load(ws.gram, g0 + 1), m0, s1)
        s2 = fma(load(ws.gram, g0 + 2), m0, s2)
        s3 = fma(load(ws.gram, g0 + 3), m0, s3)
        m1 = _move(ws, k + 1, s1)
        s2 = fma(load(ws.gram, g1 + 2), m1, s2)
        s3 = fma(load(ws.gram, g1 + 3), m1, s3)
        m2 = _move(ws, k + 2, s2)
        m3 = _move(ws, k + 3, fma(load(ws.gram, g2 + 3), m2, s3))
        store(ws.moves, 0, m0)
        store(ws.moves, 1, m1)
        store(ws.moves, 2, m2)
        store(ws.moves, 3, m3)
        multiply_vector(
            Strided(ws.slope, 0, 1, 0),
            Strided(ws.gram, k * width, 1, width),
            Strided(ws.moves, 0, 0, 1),
            width,
            4,
            True,
        )
        progress = fma(load(ws.gram, g0) * m0, m0, progress)
        progress = fma(load(ws.gram, g1 + 1) * m1, m1, progress)
        progress = fma(load(ws.gram, g2 + 2) * m2, m2, progress)
        progress = fma(load(ws.gram, g3 + 3) * m3, m3, progress)
    return progress


@compiled
def _freeze(ws: Workspace, n: int, going: Any) -> None:
    """Keep the coefficients of pairs that are done where they are."""
    zero = splat(ws.inverse, 0.0)
    for k in range(n):
        store(ws.inverse, k, where_positive(going, load(ws.inverse, k), zero))
        store(ws.threshold, k, where_positive(going, load(ws.threshold, k), zero))


@compiled
def _factor_used(ws: Workspace, width: int, least: float) -> None:
    """Factor the Gram matrix over the coefficients in use into L D L^T.

    Keeps M = L D below the diagonal and 1/D; both are zero for what is not in use. Rows go in
    fours; those above the diagonal come out as nonsense that nobody reads. A pivot lost in
    rounding is raised, which shortens the jump but leaves it a descent.
    """
    zero, one = splat(ws.gram, 0.0), splat(ws.gram, 1.0)
    for j in range(width):
        used = load(ws.used, j)
        diagonal = load(ws.gram, j * width + j)
        pivot = diagonal
        for k in range(j):
            entry = load(ws.factor, j * width + k)
            scaled = entry * load(ws.pivot, k)
            store(ws.turn, k, zero - scaled)
            pivot = pivot - entry * scaled
        pivot = larger(pivot, splat(ws.gram, least) * diagonal)
        store(ws.pivot, j, where_positive(used, one / pivot, zero))
        below = (j + 1) // 4 * 4
        for i in range(below, width):
            entry = used * load(ws.used, i) * load(ws.gram, i * width + j)
            store(ws.factor, i * width + j, entry)
        multiply_vector(
            Strided(ws.factor, below * width + j, width, 0),
            Strided(ws.factor, below * width, width, 1),
            Strided(ws.turn, 0, 0, 1),
            width - below,
            j,
            True,
        )


@inlined
def _sign(row: Any, zero: Any, one: Any) -> Any:
    return where_positive(row, one, where_positive(zero - row, zero - one, zero))


@compiled
def _aim(ws: Workspace, width: int, least: float) -> None:
    """Solve for the jump to the minimum of the model, as if all signs were sure to stay."""
    zero, one = splat(ws.sought, 0.0), splat(ws.sought, 1.0)
    for k in range(width):
        going = where_positive(zero - load(ws.inverse, k), one, zero)
        store(ws.used, k, where_positive(size_of(load(ws.sought, k)), going, zero))
    _factor_used(ws, width, least)
    for j in range(width):
        pull = load(ws.slope, j)
        pull = fma(_sign(load(ws.sought, j), zero, one), load(ws.allowed, j), pull)
        for k in range(j):
            pull = fma(load(ws.factor, j * width + k), load(ws.jump, k), pull)
        aimed = zero - load(ws.pivot, j) * pull
        store(ws.jump, j, where_positive(load(ws.used, j), aimed, zero))
    for j in range(width - 1, -1, -1):
        pull = zero
        for i in range(j + 1, width):
            pull = fma(load(ws.factor, i * width + j), load(ws.jump, i), pull)
        store(ws.jump, j, load(ws.jump, j) - load(ws.pivot, j) * pull)


@compiled
def _shorten_jump(ws: Workspace, width: int, least: float) -> None:
    """End the jump where the first coefficient becomes zero, and set that one to zero."""
    zero, one = splat(ws.sought, 0.0), splat(ws.sought, 1.0)
    share = one
    for k in range(width):
        old, jump = load(ws.sought, k), load(ws.jump, k)
        crossing = zero - old * (old + jump)
        share = smaller(where_positive(crossing, (zero - old) / jump, share), share)
    for k in range(width):
        old, jump = load(ws.sought, k), load(ws.jump, k)
        crossing = zero - old * (old + jump)
        # Not above zero: this one has arrived.
        short = fma(share, jump, old) * _sign(old, zero, one)
        arrived = where_positive(short - splat(ws.sought, least) * size_of(old), zero, crossing)
        store(ws.jump, k, where_positive(arrived, zero - old, share * jump))


@compiled
def _jump(ws: Workspace, width: int, least: float) -> Any:
    """Move towards the minimum with the present signs until a coefficient becomes zero.

    Returns:
        Twice the decrease of the model, the unit of progress of a sweep; zero where the jump
        would not have lowered it, and was not made.
    """
    zero, half, one = splat(ws.sought, 0.0), splat(ws.sought, 0.5), splat(ws.sought, 1.0)
    _aim(ws, width, least)
    _shorten_jump(ws, width, least)
    multiply_vector(
        Strided(ws.turn, 0, 1, 0),
        Strided(ws.gram, 0, width, 1),
        Strided(ws.jump, 0, 0, 1),
        width,
        width,
        False,
    )
    gain = zero
    for k in range(width):
        slope = fma(half, load(ws.turn, k), load(ws.slope, k))
        sign = _sign(load(ws.sought, k), zero, one)
        gain = gain - fma(sign, load(ws.allowed, k), slope) * load(ws.jump, k)
    for k in range(width):
        moved = load(ws.sought, k) + load(ws.jump, k)
        turned = load(ws.slope, k) + load(ws.turn, k)
        store(ws.sought, k, where_positive(gain, moved, load(ws.sought, k)))
        store(ws.slope, k, where_positive(gain, turned, load(ws.slope, k)))
    return where_positive(gain, gain + gain, zero)


@compiled
def _predict(ws: Workspace, candidates: Numbers, n: int) -> None:
    """Write by how much the model falls from the old coefficients to the new; store them."""
    half = splat(ws.sought, 0.5)
    decrease = splat(ws.sought, 0.0)
    for k in range(n):
        m = candidates[k]
        old, new = load(ws.trial, m), load(ws.sought, k)
        slopes = load(ws.gradient, m) + load(ws.slope, k)
        decrease = fma(load(ws.allowed, k), size_of(old) - size_of(new), decrease)
        decrease = fma(half * slopes, old - new, decrease)
        store(ws.trial, m, new)
    store(ws.predicted, 0, decrease)


@compiled
def minimise_model(ws: Workspace, candidates: Numbers, n: int, rounding: float) -> None:
    """Minimise the damped quadratic model plus the penalty.

    Sweeps of coordinate descent find out which coefficients are zero and which sign the others
    have. Pairs on which they zig-zag go on with a sweep and a jump by turns. Starts from, and
    overwrites, the trial coefficients. Writes the decrease the model predicts for every pair.
    """
    width = (n + 3) // 4 * 4
    share, zero = splat(ws.slope, SWEEP_SHARE), splat(ws.slope, 0.0)
    _prepare(ws, candidates, n, width)
    total, going = zero, splat(ws.slope, 1.0)
    for k in range(MAX_SWEEPS):
        progress = _sweep(ws, width)
        total = total + progress
        still = where_positive(progress - share * total, going, zero)
        if not any_above(still, zero):
            break
        if any_above(going - still, zero):
            _freeze(ws, n, still)
        going = still
        if k + 1 >= PLAIN_SWEEPS:
            total = total + _jump(ws, width, LEAST_PIVOT * rounding)
    _predict(ws, candidates, n)
