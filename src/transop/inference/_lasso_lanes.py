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
    for at in range(n * lanes, (wide + 1) * lanes, lanes):
        store(ws, rooms.slope + at, zero)


@embedded
def _shift_slopes(ws: Flat, slopes: int, row: int, move: Any, n: int) -> None:
    """Tell every candidate's slope about the move of one coefficient."""
    lanes = lane_count(ws)
    for k in range(0, n * lanes, 4 * lanes):
        at, g = slopes + k, row + k
        s0 = fma(load(ws, g), move, load(ws, at))
        s1 = fma(load(ws, g + lanes), move, load(ws, at + lanes))
        s2 = fma(load(ws, g + 2 * lanes), move, load(ws, at + 2 * lanes))
        s3 = fma(load(ws, g + 3 * lanes), move, load(ws, at + 3 * lanes))
        store(ws, at, s0)
        store(ws, at + lanes, s1)
        store(ws, at + 2 * lanes, s2)
        store(ws, at + 3 * lanes, s3)


@compiled
def _sweep(ws: Flat, rooms: Rooms, n: int, wide: int) -> Any:
    """Move every candidate once to its best value; return the curvature-weighted squared moves.

    The slope of the next candidate is computed ahead of the others, because the next move
    waits for nothing else.
    """
    lanes = lane_count(ws)
    zero = splat(ws, 0.0)
    progress = zero
    row = rooms.gram
    slope = load(ws, rooms.slope)
    for at in range(0, n * lanes, lanes):
        old = load(ws, rooms.sought + at)
        threshold = load(ws, rooms.threshold + at)
        goal = fma(slope, load(ws, rooms.inverse + at), old)
        new = goal - smaller(larger(goal, zero - threshold), threshold)
        move = new - old
        slope = fma(load(ws, row + at + lanes), move, load(ws, rooms.slope + at + lanes))
        store(ws, rooms.sought + at, new)
        progress = fma(load(ws, row + at) * move, move, progress)
        _shift_slopes(ws, rooms.slope, row, move, wide)
        row += wide * lanes
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
        progress = _sweep(ws, rooms, n, wide)
        total = total + progress
        still = where_positive(progress - share * total, going, zero)
        if not any_above(still, zero):
            break
        if any_above(going - still, zero):
            _freeze(ws, rooms, n, still)
        going = still
    _predict(ws, rooms, candidates, n)
