"""Proximal Gauss-Newton for a group of pairs in lock step; a finished pair makes room for a new."""

import numpy as np

from transop.inference._flow_lanes import (
    form_generator,
    measure_objective,
    move_points,
    pull_back,
)
from transop.inference._lanes import compiled, lane_count, load, spliced, store
from transop.inference._lasso_lanes import minimise_model
from transop.inference._model_lanes import (
    correct_columns,
    fill_columns,
    form_gram,
    list_candidates,
    project,
)
from transop.inference._rooms import (
    ANSWER_CONVERGED,
    ANSWER_ITERATIONS,
    ANSWER_OBJECTIVE,
    ANSWER_RESIDUAL,
    DAMPING,
    DATA,
    HEAVIEST,
    LABOURING,
    NORM,
    OPERATORS_AT_ONCE,
    PENALTY,
    PREDICTED,
    STATE_ROWS,
    Flat,
    Quadrature,
    Rooms,
)

INITIAL_DAMPING = 1e-3
LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e6
MAX_RETREATS = 12  # after 4^-12 of a descent step only rounding error is left
UNSEEN = 10.0  # noise levels: a hoped-for decrease below that may not show
LONG_LABOUR = 30  # evaluations after which a pair is given the exact Jacobian
NOBODY = -1.0

# Rows of the lanes' state, always in double precision.
(
    PAIR,  # its number, or NOBODY
    SCALE,  # length unit of the pair: its latents are divided by it
    LENGTH,  # of z1, in that unit
    AT_ZERO,  # objective of zero coefficients
    OBJECTIVE,  # of the accepted coefficients; infinite before the first evaluation
    DATA_TERM,  # its data term
    PROMISED,  # decrease predicted by the model for the trial under way
    ITERATIONS,
    RETREATS,  # consecutive rejected trials
    ACCEPTED,
    RESTARTED,
    HOPED,  # decrease predicted for the trial before any retreat, undamped
) = range(STATE_ROWS)


@compiled
def _longer_length(pairs: Flat, pair: int, d: int) -> float:
    """Measure the longer of a pair's two points; infinite or NaN if an entry is."""
    largest = 0.0
    for i in range(2 * d):
        size = abs(float(pairs[pair, i]))
        if not size <= largest:
            largest = size
            if not size < np.inf:
                return size
    a, b = 0.0, 0.0
    if largest > 0.0:
        for i in range(d):
            a += (pairs[pair, i] / largest) ** 2
            b += (pairs[pair, d + i] / largest) ** 2
    return float(largest * np.sqrt(max(a, b)))


@compiled
def _clear_lane(ws: Flat, rooms: Rooms, lane: int) -> None:
    """Leave a lane with a point that goes nowhere."""
    lanes = lane_count(ws)
    for i in range(rooms.dimension):
        ws[rooms.z0 + i * lanes + lane] = 0.0
        ws[rooms.z1 + i * lanes + lane] = 0.0
    for m in range(rooms.n_operators + OPERATORS_AT_ONCE):
        ws[rooms.weight + m * lanes + lane] = 1.0
        ws[rooms.coefficients + m * lanes + lane] = 0.0
        ws[rooms.trial + m * lanes + lane] = 0.0
    ws[rooms.scratch + DAMPING * lanes + lane] = INITIAL_DAMPING
    ws[rooms.scratch + LABOURING * lanes + lane] = 0.0


@compiled
def _enter(
    ws: Flat, rooms: Rooms, state: Flat, lane: int, pair: int, norms: Flat, pairs: Flat
) -> None:
    """Load a pair into a lane, in units where its longer point has length one."""
    lanes = lane_count(ws)
    d, m_count = rooms.dimension, rooms.n_operators
    scale, length, gap = state[SCALE, lane], 0.0, 0.0
    for i in range(d):
        a, b = pairs[pair, i] / scale, pairs[pair, d + i] / scale
        ws[rooms.z0 + i * lanes + lane] = a
        ws[rooms.z1 + i * lanes + lane] = b
        length += b * b
        gap += (b - a) ** 2
    started = False
    for m in range(m_count):
        norm = norms[m]
        weight, start = HEAVIEST, 0.0
        if norm > 0.0:
            weight = min(HEAVIEST, pairs[pair, 2 * d + m] / (norm * scale) / scale)
            start = pairs[pair, 2 * d + m_count + m] * norm
        ws[rooms.weight + m * lanes + lane] = weight
        ws[rooms.coefficients + m * lanes + lane] = 0.0
        ws[rooms.trial + m * lanes + lane] = start
        started = started or start != 0.0
    ws[rooms.scratch + DAMPING * lanes + lane] = INITIAL_DAMPING
    state[PAIR, lane] = pair
    state[LENGTH, lane] = np.sqrt(length)
    state[AT_ZERO, lane] = 0.5 * gap
    state[OBJECTIVE, lane] = np.inf
    state[ITERATIONS, lane] = 0.0
    state[RETREATS, lane] = 0.0
    state[RESTARTED, lane] = 0.0 if started else 1.0
    state[HOPED, lane] = np.inf


@compiled
def _admit_next(
    ws: Flat,
    rooms: Rooms,
    state: Flat,
    lane: int,
    pair: int,
    stop: int,
    norms: Flat,
    pairs: Flat,
    answers: Flat,
) -> int:
    """Fill a free lane with the next pair that needs work; return the pair after it."""
    m_count = rooms.n_operators
    while pair < stop:
        scale = _longer_length(pairs, pair, rooms.dimension)
        state[SCALE, lane] = scale
        if 0.0 < scale < np.inf:
            _enter(ws, rooms, state, lane, pair, norms, pairs)
            return pair + 1
        for m in range(m_count):  # both points are zero, or not numbers at all
            answers[pair, m] = 0.0
        answers[pair, m_count + ANSWER_OBJECTIVE] = scale
        answers[pair, m_count + ANSWER_RESIDUAL] = scale
        answers[pair, m_count + ANSWER_CONVERGED] = scale == 0.0
        answers[pair, m_count + ANSWER_ITERATIONS] = 0.0
        pair += 1
    state[PAIR, lane] = NOBODY
    _clear_lane(ws, rooms, lane)
    return pair


@compiled
def _leave(
    ws: Flat,
    rooms: Rooms,
    state: Flat,
    lane: int,
    converged: bool,
    norms: Flat,
    answers: Flat,
) -> None:
    """Write a pair's accepted coefficients back in the caller's units."""
    lanes = lane_count(ws)
    m_count = rooms.n_operators
    pair = int(state[PAIR, lane])
    scale, length = state[SCALE, lane], state[LENGTH, lane]
    for m in range(m_count):
        value = float(ws[rooms.coefficients + m * lanes + lane])
        answers[pair, m] = value / norms[m] if value != 0.0 else 0.0
    miss = np.sqrt(2.0 * state[DATA_TERM, lane])
    answers[pair, m_count + ANSWER_OBJECTIVE] = state[OBJECTIVE, lane] * scale * scale
    answers[pair, m_count + ANSWER_RESIDUAL] = miss / length if length > 0.0 else miss * scale
    answers[pair, m_count + ANSWER_CONVERGED] = converged
    answers[pair, m_count + ANSWER_ITERATIONS] = state[ITERATIONS, lane]


@compiled
def _adapt_damping(damping: float, kept: float, clean: bool) -> float:
    """Trust the model more after a promise kept at the first attempt, less after a broken one."""
    if kept > 0.75 and clean:
        return max(LEAST_DAMPING, damping / 8.0)
    if kept < 0.25:
        return min(MOST_DAMPING, damping * 4.0)
    return damping


@compiled
def _judge(ws: Flat, rooms: Rooms, state: Flat) -> None:
    """Accept the trials that lower the objective; adapt the damping to the promises kept."""
    lanes = lane_count(ws)
    scratch = rooms.scratch
    for lane in range(lanes):
        if state[PAIR, lane] == NOBODY:
            continue
        state[ITERATIONS, lane] += 1.0
        ws[scratch + LABOURING * lanes + lane] = state[ITERATIONS, lane] > LONG_LABOUR
        data = float(ws[scratch + DATA * lanes + lane])
        value = data + float(ws[scratch + PENALTY * lanes + lane])
        old = state[OBJECTIVE, lane]
        usable = ws[scratch + NORM * lanes + lane] < np.inf
        accepted = usable and value < old
        damping = float(ws[scratch + DAMPING * lanes + lane])
        state[ACCEPTED, lane] = accepted
        if not accepted:
            ws[scratch + DAMPING * lanes + lane] = min(MOST_DAMPING, damping * 8.0)
            state[RETREATS, lane] += 1.0
            continue
        if old < np.inf:
            kept = (old - value) / max(state[PROMISED, lane], 1e-300)
            clean = state[RETREATS, lane] == 0.0
            ws[scratch + DAMPING * lanes + lane] = _adapt_damping(damping, kept, clean)
        state[OBJECTIVE, lane] = value
        state[DATA_TERM, lane] = data
        state[RETREATS, lane] = 0.0
        for m in range(rooms.n_operators):
            at = m * lanes + lane
            ws[rooms.coefficients + at] = ws[rooms.trial + at]


@compiled
def _retreat(ws: Flat, rooms: Rooms, state: Flat, lane: int) -> None:
    """Shorten a rejected step to a quarter; before any accepted point, go back to zero."""
    lanes = lane_count(ws)
    fresh = state[OBJECTIVE, lane] == np.inf
    for m in range(rooms.n_operators):
        at = m * lanes + lane
        start = ws[rooms.coefficients + at]
        shorter = start + 0.25 * (ws[rooms.rejected + at] - start)
        ws[rooms.trial + at] = 0.0 if fresh else shorter
    state[PROMISED, lane] *= 0.25


@compiled
def _is_settled(state: Flat, lane: int, tolerance: float, rounding: float) -> bool:
    """Tell whether the model promises no decrease above the tolerance or the rounding error.

    Every entry of the miss is off by some rounding units of the point's length, which is one.
    """
    value = state[OBJECTIVE, lane]
    if value == np.inf:  # not one trial has been usable yet
        return False
    blur = 8.0 * rounding
    noise = blur * (np.sqrt(2.0 * state[DATA_TERM, lane]) + value + blur)
    if state[ACCEPTED, lane] == 0.0:  # the decrease hoped for did not show
        noise *= UNSEEN
    return bool(state[HOPED, lane] <= max(tolerance * value, noise))


@compiled
def _restart_from_zero(ws: Flat, rooms: Rooms, state: Flat, lane: int) -> None:
    """Forget a given start that led to a worse place than zero coefficients."""
    lanes = lane_count(ws)
    for m in range(rooms.n_operators):
        ws[rooms.trial + m * lanes + lane] = 0.0
    ws[rooms.scratch + DAMPING * lanes + lane] = INITIAL_DAMPING
    state[OBJECTIVE, lane] = np.inf
    state[ITERATIONS, lane] = 0.0
    state[RETREATS, lane] = 0.0
    state[RESTARTED, lane] = 1.0
    state[HOPED, lane] = np.inf


@spliced
def _step(
    ws: Flat,
    rooms: Rooms,
    state: Flat,
    psi: Flat,
    columns: Flat,
    listed: Flat,
    rule: Quadrature,
) -> None:
    """Evaluate every trial, then propose the next one by the small l1 problem."""
    lanes = lane_count(ws)
    form_generator(ws, rooms, psi, listed)
    n_substeps, n_nodes = move_points(ws, rooms, rule)
    pull_back(ws, rooms, rule, n_substeps, n_nodes, rooms.residual)
    measure_objective(ws, rooms)
    _judge(ws, rooms, state)
    project(ws, rooms, psi, -1.0 / n_substeps, rooms.gradient)
    n = list_candidates(ws, rooms, listed)
    middle = n_substeps // 2 * (n_nodes + 1) + n_nodes // 2
    moved = rooms.forward + middle * rooms.padded * lanes
    fill_columns(ws, rooms, columns, listed, n, moved)
    correct_columns(ws, rooms, rule, psi, listed, n, n_substeps, n_nodes)
    form_gram(ws, rooms, n, rule.rounding * 1e-3)
    for m in range(rooms.n_operators):
        store(ws, rooms.rejected + m * lanes, load(ws, rooms.trial + m * lanes))
    minimise_model(ws, rooms, listed, n, rule.rounding)
    for lane in range(lanes):
        if state[PAIR, lane] != NOBODY:
            if state[ACCEPTED, lane] > 0.0:
                promised = float(ws[rooms.scratch + PREDICTED * lanes + lane])
                damping = float(ws[rooms.scratch + DAMPING * lanes + lane])
                state[PROMISED, lane] = promised
                # Damping by a factor shortens the promise by about as much.
                state[HOPED, lane] = promised * (1.0 + damping)
            else:
                _retreat(ws, rooms, state, lane)


@spliced
def solve_range(
    ws: Flat,
    rooms: Rooms,
    state: Flat,
    listed: Flat,
    start: int,
    stop: int,
    psi: Flat,
    columns: Flat,
    norms: Flat,
    pairs: Flat,
    answers: Flat,
    rule: Quadrature,
    max_iterations: int,
    tolerance: float,
) -> None:
    """Solve consecutive pairs, as many at a time as a register has lanes."""
    lanes = lane_count(ws)
    pair = start
    n_busy = 0
    for at in range(rooms.weight):  # also clears the padding, which nothing else writes
        ws[at] = 0.0
    for lane in range(lanes):
        _clear_lane(ws, rooms, lane)
        pair = _admit_next(ws, rooms, state, lane, pair, stop, norms, pairs, answers)
        n_busy += state[PAIR, lane] != NOBODY
    while n_busy > 0:
        _step(ws, rooms, state, psi, columns, listed, rule)
        for lane in range(lanes):
            if state[PAIR, lane] == NOBODY:
                continue
            settled = _is_settled(state, lane, tolerance, rule.rounding)
            given_up = state[RETREATS, lane] > MAX_RETREATS
            tired = state[ITERATIONS, lane] >= max_iterations
            if not (settled or given_up or tired):
                continue
            worse = not state[OBJECTIVE, lane] <= state[AT_ZERO, lane]
            if worse and state[RESTARTED, lane] == 0.0:
                _restart_from_zero(ws, rooms, state, lane)
                continue
            _leave(ws, rooms, state, lane, settled, norms, answers)
            pair = _admit_next(ws, rooms, state, lane, pair, stop, norms, pairs, answers)
            n_busy -= state[PAIR, lane] == NOBODY
