"""The small l1 problem of one Gauss-Newton step, solved for a group of pairs in lock step."""

from typing import Any

from transop.inference._lanes import (
    any_above,
    compiled,
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
SWEEP_SHARE = 0.02  # a pair stops when a sweep adds less than this share of its decrease so far


@compiled
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
def descend_coordinates(ws: Flat, rooms: Rooms, candidates: Flat, n: int) -> None:
    """Minimise the damped quadratic model plus the penalty, one coefficient at a time.

    Starts from, and overwrites, the trial coefficients. Writes the decrease the model
    predicts for every pair.
    """
    lanes = lane_count(ws)
    wide = (n + 3) // 4 * 4
    zero, half, share = splat(ws, 0.0), splat(ws, 0.5), splat(ws, SWEEP_SHARE)
    for k in range(n):
        slope = load(ws, rooms.gradient + candidates[k] * lanes)
        store(ws, rooms.slope + k * lanes, slope)
    for k in range(n, wide):
        store(ws, rooms.slope + k * lanes, zero)
    predicted = zero
    going = splat(ws, 1.0)
    for _ in range(MAX_SWEEPS):
        gained = zero
        for k in range(n):
            row = rooms.gram + k * wide * lanes
            at = rooms.trial + candidates[k] * lanes
            slope = load(ws, rooms.slope + k * lanes)
            old = load(ws, at)
            curvature = load(ws, row + k * lanes)
            weight = load(ws, rooms.allowed + k * lanes)
            pull = curvature * old - slope
            excess = pull - smaller(larger(pull, zero - weight), weight)
            move = going * (excess * load(ws, rooms.inverse + k * lanes) - old)
            new = old + move
            store(ws, at, new)
            shrunk = larger(old, zero - old) - larger(new, zero - new)
            gained = gained + weight * shrunk - move * fma(half * curvature, move, slope)
            if any_above(move * move, zero):
                _shift_slopes(ws, rooms.slope, row, move, wide)
        predicted = predicted + gained
        going = where_positive(gained - share * predicted, going, zero)
        if not any_above(going, zero):
            break
    store(ws, rooms.scratch + PREDICTED * lanes, predicted)
