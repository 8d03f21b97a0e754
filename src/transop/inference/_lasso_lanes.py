"""The small l1 problem of one Gauss-Newton step, solved for a group of pairs in lock step."""

from typing import Any

from transop.inference._lanes import (
    any_above,
    compiled,
    embedded,
    fma,
    lane_count,
    larger,
    load,
    smaller,
    splat,
    store,
    store_four,
    where_positive,
)
from transop.inference._rooms import PREDICTED, Flat, Rooms

MAX_SWEEPS = 24
PLAIN_SWEEPS = 8  # sweeps before the first jump; most pairs need no more
SWEEP_SHARE = 0.02  # a pair stops when a sweep adds less than this share of its progress so far
LEAST_PIVOT = 32.0  # rounding units of the diagonal: pivots below are rounding error


@compiled
def _prepare(ws: Flat, rooms: Rooms, candidates: Flat, n: int, wide: int) -> None:
    """Gather slopes and coefficients of the candidates; turn weights into thresholds."""
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    for k in range(n):
        at = k * lanes
        m = candidates[k] * lanes
        store(ws, rooms.slope + at, load(ws, rooms.gradient + m))
        store(ws, rooms.sought + at, load(ws, rooms.trial + m))
        inverse = load(ws, rooms.inverse + at)
        store(ws, rooms.threshold + at, inverse * load(ws, rooms.allowed + at))
        store(ws, rooms.inverse + at, zero - inverse)
    for at in range(n * lanes, wide * lanes, lanes):
        store(ws, rooms.slope + at, zero)
        store(ws, rooms.sought + at, zero)
        store(ws, rooms.threshold + at, zero)
        store(ws, rooms.allowed + at, zero)
        store(ws, rooms.inverse + at, zero)


@embedded
def _move(ws: Flat, rooms: Rooms, at: int, slope: Any) -> Any:
    """Set one coefficient to its best value given the others; return the change."""
    threshold = load(ws, rooms.threshold + at)
    old = load(ws, rooms.sought + at)
    goal = fma(slope, load(ws, rooms.inverse + at), old)
    new = goal - smaller(larger(goal, splat(ws, 0.0) - threshold), threshold)
    store(ws, rooms.sought + at, new)
    return new - old


@compiled
def _sweep(ws: Flat, rooms: Rooms, wide: int) -> Any:
    """Move every candidate once; return the moves squared, weighted by curvature.

    Goes in fours: within a four the slopes are kept up to date in registers, all others hear of
    four moves at once.
    """
    lanes = lane_count(ws)
    row = wide * lanes
    progress = splat(ws, 0.0)
    g0 = rooms.gram
    for at in range(0, row, 4 * lanes):
        g1, g2, g3 = g0 + row, g0 + 2 * row, g0 + 3 * row
        a1, a2, a3 = at + lanes, at + 2 * lanes, at + 3 * lanes
        s1, s2 = load(ws, rooms.slope + a1), load(ws, rooms.slope + a2)
        s3 = load(ws, rooms.slope + a3)
        m0 = _move(ws, rooms, at, load(ws, rooms.slope + at))
        s1 = fma(load(ws, g0 + a1), m0, s1)
        s2 = fma(load(ws, g0 + a2), m0, s2)
        s3 = fma(load(ws, g0 + a3), m0, s3)
        m1 = _move(ws, rooms, a1, s1)
        s2 = fma(load(ws, g1 + a2), m1, s2)
        s3 = fma(load(ws, g1 + a3), m1, s3)
        m2 = _move(ws, rooms, a2, s2)
        m3 = _move(ws, rooms, a3, fma(load(ws, g2 + a3), m2, s3))
        for to in range(rooms.slope, rooms.slope + row, lanes):
            k = to - rooms.slope
            slope = fma(load(ws, g0 + k), m0, load(ws, to))
            slope = fma(load(ws, g1 + k), m1, slope)
            slope = fma(load(ws, g2 + k), m2, slope)
            store(ws, to, fma(load(ws, g3 + k), m3, slope))
        progress = fma(load(ws, g0 + at) * m0, m0, progress)
        progress = fma(load(ws, g1 + a1) * m1, m1, progress)
        progress = fma(load(ws, g2 + a2) * m2, m2, progress)
        progress = fma(load(ws, g3 + a3) * m3, m3, progress)
        g0 += 4 * row
    return progress


@compiled
def _freeze(ws: Flat, rooms: Rooms, n: int, going: Any) -> None:
    """Keep the coefficients of pairs that are done where they are."""
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    for at in range(0, n * lanes, lanes):
        inverse, threshold = rooms.inverse + at, rooms.threshold + at
        store(ws, inverse, where_positive(going, load(ws, inverse), zero))
        store(ws, threshold, where_positive(going, load(ws, threshold), zero))


@compiled
def _factor_used(ws: Flat, rooms: Rooms, wide: int, least: float) -> None:
    """Factor the Gram matrix over the coefficients in use into L D L^T.

    Keeps M = L D below the diagonal and 1/D; both are zero for what is not in use. Rows go in
    fours; those above the diagonal come out as nonsense that nobody reads. A pivot lost in
    rounding is raised, which shortens the jump but leaves it a descent.
    """
    lanes = lane_count(ws)
    row = wide * lanes
    zero, one = splat(ws, 0.0), splat(ws, 1.0)
    for j in range(wide):
        used = load(ws, rooms.used + j * lanes)
        diagonal = load(ws, rooms.gram + j * row + j * lanes)
        pivot = diagonal
        for k in range(0, j * lanes, lanes):
            entry = load(ws, rooms.factor + j * row + k)
            scaled = entry * load(ws, rooms.pivot + k)
            store(ws, rooms.turn + k, zero - scaled)
            pivot = pivot - entry * scaled
        pivot = larger(pivot, splat(ws, least) * diagonal)
        store(ws, rooms.pivot + j * lanes, where_positive(used, one / pivot, zero))
        for i in range((j + 1) // 4 * 4, wide, 4):
            at, to = rooms.gram + i * row + j * lanes, rooms.factor + i * row
            in_use = rooms.used + i * lanes
            s0 = used * load(ws, in_use) * load(ws, at)
            s1 = used * load(ws, in_use + lanes) * load(ws, at + row)
            s2 = used * load(ws, in_use + 2 * lanes) * load(ws, at + 2 * row)
            s3 = used * load(ws, in_use + 3 * lanes) * load(ws, at + 3 * row)
            for k in range(0, j * lanes, lanes):
                scaled = load(ws, rooms.turn + k)
                s0 = fma(load(ws, to + k), scaled, s0)
                s1 = fma(load(ws, to + row + k), scaled, s1)
                s2 = fma(load(ws, to + 2 * row + k), scaled, s2)
                s3 = fma(load(ws, to + 3 * row + k), scaled, s3)
            to += j * lanes
            store_four(ws, to, row, s0, s1, s2, s3)


@embedded
def _sign(ws: Flat, x: Any) -> Any:
    zero, one = splat(ws, 0.0), splat(ws, 1.0)
    return where_positive(x, one, where_positive(zero - x, zero - one, zero))


@compiled
def _aim(ws: Flat, rooms: Rooms, wide: int, least: float) -> None:
    """Solve for the jump to the minimum of the model, as if all signs were sure to stay."""
    lanes = lane_count(ws)
    row = wide * lanes
    zero, one = splat(ws, 0.0), splat(ws, 1.0)
    for k in range(0, row, lanes):
        size = _sign(ws, load(ws, rooms.sought + k)) * load(ws, rooms.sought + k)
        going = where_positive(zero - load(ws, rooms.inverse + k), one, zero)
        store(ws, rooms.used + k, where_positive(size, going, zero))
    _factor_used(ws, rooms, wide, least)
    for j in range(0, row, lanes):
        at = rooms.factor + j * wide
        pull = load(ws, rooms.slope + j)
        pull = fma(_sign(ws, load(ws, rooms.sought + j)), load(ws, rooms.allowed + j), pull)
        for k in range(0, j, lanes):
            pull = fma(load(ws, at + k), load(ws, rooms.jump + k), pull)
        used = load(ws, rooms.used + j)
        aimed = zero - load(ws, rooms.pivot + j) * pull
        store(ws, rooms.jump + j, where_positive(used, aimed, zero))
    for j in range(row - lanes, -1, -lanes):
        pull = zero
        for i in range(j + lanes, row, lanes):
            pull = fma(load(ws, rooms.factor + i * wide + j), load(ws, rooms.jump + i), pull)
        aimed = load(ws, rooms.jump + j) - load(ws, rooms.pivot + j) * pull
        store(ws, rooms.jump + j, aimed)


@compiled
def _turn_slopes(ws: Flat, rooms: Rooms, wide: int) -> None:
    """Multiply the Gram matrix with the jump: what the jump adds to the slopes."""
    lanes = lane_count(ws)
    row = wide * lanes
    zero = splat(ws, 0.0)
    for i in range(0, row, 4 * lanes):
        at = rooms.gram + i * wide
        t0, t1, t2, t3 = zero, zero, zero, zero
        for k in range(0, row, lanes):
            jump = load(ws, rooms.jump + k)
            t0 = fma(load(ws, at + k), jump, t0)
            t1 = fma(load(ws, at + row + k), jump, t1)
            t2 = fma(load(ws, at + 2 * row + k), jump, t2)
            t3 = fma(load(ws, at + 3 * row + k), jump, t3)
        store_four(ws, rooms.turn + i, lanes, t0, t1, t2, t3)


@compiled
def _jump(ws: Flat, rooms: Rooms, wide: int, least: float) -> Any:
    """Move towards the minimum with the present signs until a coefficient becomes zero.

    Returns:
        Twice the decrease of the model, the unit of progress of a sweep; zero where the jump
        would not have lowered it, and was not made.
    """
    lanes = lane_count(ws)
    row = wide * lanes
    zero, half, share = splat(ws, 0.0), splat(ws, 0.5), splat(ws, 1.0)
    _aim(ws, rooms, wide, least)
    for k in range(0, row, lanes):
        old, jump = load(ws, rooms.sought + k), load(ws, rooms.jump + k)
        crossing = zero - old * (old + jump)
        share = smaller(where_positive(crossing, (zero - old) / jump, share), share)
    for k in range(0, row, lanes):
        old, jump = load(ws, rooms.sought + k), load(ws, rooms.jump + k)
        crossing = zero - old * (old + jump)
        short = fma(share, jump, old) * _sign(ws, old)  # not above zero: this one has arrived
        arrived = where_positive(short - splat(ws, least) * old * _sign(ws, old), zero, crossing)
        store(ws, rooms.jump + k, where_positive(arrived, zero - old, share * jump))
    _turn_slopes(ws, rooms, wide)
    gain = zero
    for k in range(0, row, lanes):
        slope = fma(half, load(ws, rooms.turn + k), load(ws, rooms.slope + k))
        sign = _sign(ws, load(ws, rooms.sought + k))
        gain = gain - fma(sign, load(ws, rooms.allowed + k), slope) * load(ws, rooms.jump + k)
    for k in range(0, row, lanes):
        moved = load(ws, rooms.sought + k) + load(ws, rooms.jump + k)
        turned = load(ws, rooms.slope + k) + load(ws, rooms.turn + k)
        store(ws, rooms.sought + k, where_positive(gain, moved, load(ws, rooms.sought + k)))
        store(ws, rooms.slope + k, where_positive(gain, turned, load(ws, rooms.slope + k)))
    return where_positive(gain, gain + gain, zero)


@compiled
def _predict(ws: Flat, rooms: Rooms, candidates: Flat, n: int) -> None:
    """Write what the model loses on the way from the old coefficients to the new; store them."""
    lanes = lane_count(ws)
    zero, half = splat(ws, 0.0), splat(ws, 0.5)
    decrease = zero
    for k in range(n):
        m, at = candidates[k] * lanes, k * lanes
        old, new = load(ws, rooms.trial + m), load(ws, rooms.sought + at)
        shrunk = larger(old, zero - old) - larger(new, zero - new)
        slopes = load(ws, rooms.gradient + m) + load(ws, rooms.slope + at)
        decrease = fma(load(ws, rooms.allowed + at), shrunk, decrease)
        decrease = fma(half * slopes, old - new, decrease)
        store(ws, rooms.trial + m, new)
    store(ws, rooms.scratch + PREDICTED * lanes, decrease)


@compiled
def minimise_model(ws: Flat, rooms: Rooms, candidates: Flat, n: int, rounding: float) -> None:
    """Minimise the damped quadratic model plus the penalty.

    Sweeps of coordinate descent find out who is zero and who has which sign. Pairs on which
    they zig-zag go on with a sweep and a jump by turns. Starts from, and overwrites, the trial
    coefficients. Writes the decrease the model predicts for every pair.
    """
    wide = (n + 3) // 4 * 4
    share, zero = splat(ws, SWEEP_SHARE), splat(ws, 0.0)
    _prepare(ws, rooms, candidates, n, wide)
    total, going = zero, splat(ws, 1.0)
    for k in range(MAX_SWEEPS):
        progress = _sweep(ws, rooms, wide)
        total = total + progress
        still = where_positive(progress - share * total, going, zero)
        if not any_above(still, zero):
            break
        if any_above(going - still, zero):
            _freeze(ws, rooms, n, still)
        going = still
        if k + 1 >= PLAIN_SWEEPS:
            total = total + _jump(ws, rooms, wide, LEAST_PIVOT * rounding)
    _predict(ws, rooms, candidates, n)
