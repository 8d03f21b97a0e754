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
    where_positive,
)
from transop.inference._rooms import PREDICTED, Flat, Rooms

MAX_SWEEPS = 50
SWEEP_SHARE = 0.02  # a pair stops when a sweep adds less than this share of its progress so far


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
def descend_coordinates(ws: Flat, rooms: Rooms, candidates: Flat, n: int) -> None:
    """Minimise the damped quadratic model plus the penalty, one coefficient at a time.

    Starts from, and overwrites, the trial coefficients. Writes the decrease the model
    predicts for every pair.
    """
    wide = (n + 3) // 4 * 4
    share, zero = splat(ws, SWEEP_SHARE), splat(ws, 0.0)
    _prepare(ws, rooms, candidates, n, wide)
    total, going = zero, splat(ws, 1.0)
    for _ in range(MAX_SWEEPS):
        progress = _sweep(ws, rooms, wide)
        total = total + progress
        still = where_positive(progress - share * total, going, zero)
        if not any_above(still, zero):
            break
        if any_above(going - still, zero):
            _freeze(ws, rooms, n, still)
        going = still
    _predict(ws, rooms, candidates, n)
