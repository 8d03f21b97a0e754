"""Proximal Gauss-Newton for a group of pairs in lock step.

A pair that is done leaves its lane to the next one, so that no lane waits for the slowest pair.
"""

from typing import Any

import numpy as np

from transop.inference._descent import minimise_model
from transop.inference._flow import (
    form_generator,
    measure_objective,
    mirror_generator,
    move_points,
    plan_path,
    pull_back,
)
from transop.inference._model import (
    HEAVIEST,
    correct_columns,
    damp_gram,
    fill_columns,
    form_gram,
    list_candidates,
    measure_violation,
    project,
)
from transop.inference._simd import Numbers, compiled, inlined, load, splat, store
from transop.inference._workspace import (
    OPERATORS_AT_ONCE,
    Array,
    Dictionary,
    Progress,
    Quadrature,
    Workspace,
)

INITIAL_DAMPING = 1e-3
LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e6
MAX_RETREATS = 12  # after 4^-12 of a descent step only rounding error is left
UNSEEN = 10.0  # noise levels: a hoped-for decrease below that may not show
PATIENCE = 30  # evaluations after which a pair is given the exact Jacobian
BLUR = 8.0  # rounding units by which every entry of the residual is off
# A promised decrease of the objective by a share t goes with slopes that miss by about sqrt(t).
VIOLATION_PER_TOLERANCE = 4.0
SLOWEST_RATE = 0.99  # at which promises are assumed to shrink from step to step
NO_PAIR = -1.0

# Columns of the answers, after the coefficients.
ANSWER_OBJECTIVE, ANSWER_RESIDUAL, ANSWER_CONVERGED, ANSWER_ITERATIONS = range(4)
ANSWER_COLUMNS = 4


@compiled
def _longer_length(pairs: Array, pair: int, d: int) -> float:
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
def _clear_lane(ws: Workspace, lane: int) -> None:
    """Leave a lane with a point that goes nowhere."""
    for i in range(ws.dimension):
        ws.z0[i, lane] = 0.0
        ws.z1[i, lane] = 0.0
    for m in range(ws.n_operators + OPERATORS_AT_ONCE):
        ws.weight[m, lane] = 1.0
        ws.coefficients[m, lane] = 0.0
        ws.trial[m, lane] = 0.0
    ws.damping[0, lane] = INITIAL_DAMPING
    ws.exact[0, lane] = 0.0


@compiled
def _clear_padding(ws: Workspace) -> None:
    """Zero the latent vectors and matrices whose padding nothing else writes."""
    zero = splat(ws.z0, 0.0)
    for i in range(max(ws.dimension, ws.wide)):
        store(ws.z0, i, zero)
        store(ws.z1, i, zero)
    for ij in range(ws.dimension * ws.wide):
        store(ws.generator, ij, zero)
        store(ws.mirror, ij, zero)


@compiled
def _enter(
    ws: Workspace, state: Progress, lane: int, pair: int, scale: float, norms: Numbers, pairs: Array
) -> None:
    """Load a pair into a lane, in units where its longer point has length one."""
    d, m_count = ws.dimension, ws.n_operators
    length, gap = 0.0, 0.0
    for i in range(d):
        a, b = pairs[pair, i] / scale, pairs[pair, d + i] / scale
        ws.z0[i, lane] = a
        ws.z1[i, lane] = b
        length += b * b
        gap += (b - a) ** 2
    started = False
    for m in range(m_count):
        norm = norms[m]
        weight, start = HEAVIEST, 0.0
        if norm > 0.0:
            weight = min(HEAVIEST, pairs[pair, 2 * d + m] / (norm * scale) / scale)
            start = pairs[pair, 2 * d + m_count + m] * norm
        ws.weight[m, lane] = weight
        ws.coefficients[m, lane] = 0.0
        ws.trial[m, lane] = start
        started = started or start != 0.0
    state.pair[lane] = pair
    state.scale[lane] = scale
    state.length[lane] = np.sqrt(length)
    state.at_zero[lane] = 0.5 * gap
    state.iterations[lane] = 0.0
    state.restarted[lane] = 0.0 if started else 1.0
    _forget_evaluations(ws, state, lane)


@inlined
def _forget_evaluations(ws: Workspace, state: Progress, lane: int) -> None:
    """Begin at a new start: nothing is known about it yet."""
    ws.damping[0, lane] = INITIAL_DAMPING
    ws.exact[0, lane] = 0.0
    state.objective[lane] = np.inf
    state.data[lane] = np.inf
    state.retreats[lane] = 0.0
    state.hoped[lane] = np.inf
    state.remaining[lane] = np.inf
    state.violation[lane] = np.inf
    state.listed[lane] = 0.0


@compiled
def _admit_next(
    ws: Workspace,
    state: Progress,
    lane: int,
    pair: int,
    stop: int,
    norms: Numbers,
    pairs: Array,
    answers: Array,
) -> int:
    """Fill a free lane with the next pair that needs work; return the pair after it."""
    m_count = ws.n_operators
    while pair < stop:
        scale = _longer_length(pairs, pair, ws.dimension)
        if 0.0 < scale < np.inf:
            _enter(ws, state, lane, pair, scale, norms, pairs)
            return pair + 1
        for m in range(m_count):  # both points are zero, or not numbers at all
            answers[pair, m] = 0.0
        answers[pair, m_count + ANSWER_OBJECTIVE] = scale
        answers[pair, m_count + ANSWER_RESIDUAL] = scale
        answers[pair, m_count + ANSWER_CONVERGED] = scale == 0.0
        answers[pair, m_count + ANSWER_ITERATIONS] = 0.0
        pair += 1
    state.pair[lane] = NO_PAIR
    _clear_lane(ws, lane)
    return pair


@compiled
def _leave(
    ws: Workspace, state: Progress, lane: int, converged: bool, norms: Numbers, answers: Array
) -> None:
    """Write a pair's accepted coefficients back in the caller's units.

    Zero coefficients are better than whatever is worse than they are.
    """
    m_count = ws.n_operators
    pair = int(state.pair[lane])
    scale, length = state.scale[lane], state.length[lane]
    objective, data = state.objective[lane], state.data[lane]
    useless = not objective <= state.at_zero[lane]
    if useless:
        objective, data = state.at_zero[lane], state.at_zero[lane]
    dropped = False
    for m in range(m_count):
        value = float(ws.coefficients[m, lane])
        answers[pair, m] = 0.0 if useless or value == 0.0 else value / norms[m]
        dropped = dropped or (useless and value != 0.0)
    miss = np.sqrt(2.0 * data)
    answers[pair, m_count + ANSWER_OBJECTIVE] = objective * scale * scale
    answers[pair, m_count + ANSWER_RESIDUAL] = miss / length if length > 0.0 else miss * scale
    answers[pair, m_count + ANSWER_CONVERGED] = converged and not dropped
    answers[pair, m_count + ANSWER_ITERATIONS] = state.iterations[lane]


@inlined
def _adapt_damping(damping: float, kept: float, clean: bool) -> float:
    """Trust the model more after a promise kept at the first attempt, less after a broken one."""
    if kept > 0.75 and clean:
        return max(LEAST_DAMPING, damping / 8.0)
    if kept < 0.25:
        return min(MOST_DAMPING, damping * 4.0)
    return damping


@compiled
def accept_or_reject(ws: Workspace, state: Progress, rounding: float) -> None:
    """Accept the trials that lower the objective; adapt the damping to the promises kept."""
    for lane in range(ws.n_lanes):
        if state.pair[lane] == NO_PAIR:
            continue
        state.iterations[lane] += 1.0
        if state.iterations[lane] > PATIENCE:
            ws.exact[0, lane] = 1.0
        data = float(ws.data[0, lane])
        value = data + float(ws.penalty[0, lane])
        # Every entry of the residual is off by some units of the point's length, which is one.
        blur = BLUR * rounding
        ws.noise[0, lane] = UNSEEN * blur * (np.sqrt(2.0 * data) + value + blur)
        old = state.objective[lane]
        damping = float(ws.damping[0, lane])
        accepted = ws.norm[0, lane] < np.inf and value < old
        state.accepted[lane] = accepted
        if not accepted:
            ws.damping[0, lane] = min(MOST_DAMPING, damping * 8.0)
            state.retreats[lane] += 1.0
            continue
        if old < np.inf:
            kept = (old - value) / max(state.promised[lane], 1e-300)
            ws.damping[0, lane] = _adapt_damping(damping, kept, state.retreats[lane] == 0.0)
        state.objective[lane] = value
        state.data[lane] = data
        state.retreats[lane] = 0.0
        for m in range(ws.n_operators):
            ws.coefficients[m, lane] = ws.trial[m, lane]


@compiled
def _retreat(ws: Workspace, state: Progress, lane: int) -> None:
    """Shorten a rejected step to a quarter; before any accepted point, go back to zero."""
    fresh = state.objective[lane] == np.inf
    for m in range(ws.n_operators):
        start = ws.coefficients[m, lane]
        shorter = start + 0.25 * (ws.rejected[m, lane] - start)
        ws.trial[m, lane] = 0.0 if fresh else shorter
    state.promised[lane] *= 0.25


@compiled
def note_promises(ws: Workspace, state: Progress) -> None:
    """Remember what the model promises of every new trial; shorten the rejected ones."""
    for lane in range(ws.n_lanes):
        if state.pair[lane] == NO_PAIR:
            continue
        if state.accepted[lane] > 0.0:
            promised = float(ws.predicted[0, lane])
            state.promised[lane] = promised
            # Damping by a factor shortens the promise by about as much.
            hoped = promised * (1.0 + float(ws.damping[0, lane]))
            # Promises that shrink slowly add up: in a long valley one step says little.
            rate = 0.0
            if 0.0 < state.hoped[lane] < np.inf:
                rate = min(max(hoped / state.hoped[lane], 0.0), SLOWEST_RATE)
            state.hoped[lane] = hoped
            state.remaining[lane] = hoped / (1.0 - rate)
            state.violation[lane] = float(ws.violation[0, lane])
        else:
            _retreat(ws, state, lane)


@inlined
def _promises_little(state: Progress, lane: int, tolerance: float, rounding: float) -> bool:
    """Tell whether no decrease above the tolerance or the rounding error is to be expected."""
    value = state.objective[lane]
    if value == np.inf:  # not one trial has been usable yet
        return False
    blur = BLUR * rounding
    noise = blur * (np.sqrt(2.0 * state.data[lane]) + value + blur)
    if state.accepted[lane] == 0.0 and state.hoped[lane] <= UNSEEN * noise:
        return True  # the decrease hoped for was too small to show
    return bool(state.remaining[lane] <= max(tolerance * value, noise))


@inlined
def _step(
    ws: Workspace, state: Progress, dictionary: Dictionary, candidates: Numbers, rule: Quadrature
) -> None:
    """Evaluate every trial, then propose the next one by the small l1 problem."""
    form_generator(ws, dictionary, candidates)
    n_substeps, n_nodes = plan_path(ws, rule, ws.generator)
    mirror_generator(ws, n_substeps)
    move_points(ws, rule, n_substeps, n_nodes)
    pull_back(ws, rule, n_substeps, n_nodes)
    measure_objective(ws)
    accept_or_reject(ws, state, rule.rounding)
    project(ws, dictionary, -1.0 / n_substeps, ws.gradient)
    n = list_candidates(ws, candidates)
    middle = (n_substeps // 2 * (n_nodes + 1) + n_nodes // 2) * ws.wide
    fill_columns(ws, dictionary, candidates, n, middle, n_substeps)
    correct_columns(ws, rule, dictionary, candidates, n, n_substeps, n_nodes)
    form_gram(ws, n)
    measure_violation(ws, candidates, n)
    damp_gram(ws, n, rule.rounding * 1e-3)
    for m in range(ws.n_operators):
        store(ws.rejected, m, load(ws.trial, m))
    minimise_model(ws, candidates, n, rule.rounding)
    note_promises(ws, state)


@compiled
def _is_done(
    ws: Workspace,
    state: Progress,
    lane: int,
    max_iterations: int,
    tolerance: float,
    rounding: float,
) -> tuple[bool, bool]:
    """Tell whether a pair stops here, and whether it has converged.

    A pair has converged if next to no decrease is to be expected and the optimality conditions
    hold. Where only the first is true, the model is wrong: it gets the exact Jacobian.
    """
    little = _promises_little(state, lane, tolerance, rounding)
    stationary = state.violation[lane] <= VIOLATION_PER_TOLERANCE * tolerance
    if little and not stationary:
        ws.exact[0, lane] = 1.0
    converged = little and stationary
    n_left = max_iterations - int(state.iterations[lane])
    stops = converged or state.retreats[lane] > MAX_RETREATS or n_left <= 0
    worse = not state.objective[lane] <= state.at_zero[lane]
    half_time = stops or n_left <= max_iterations // 2
    if worse and half_time and state.restarted[lane] == 0.0 and n_left > 0:
        # The given start leads to a worse place than zero coefficients. It gets half of the
        # limit to do better; the other half is for a start from zero.
        for m in range(ws.n_operators):
            ws.trial[m, lane] = 0.0
        state.restarted[lane] = 1.0
        _forget_evaluations(ws, state, lane)
        stops = False
    return stops, stops and converged


def make_range_solver(step: Any) -> Any:
    """Make the function that solves consecutive pairs by repeating a step."""

    @inlined
    def solve_range(
        ws: Workspace,
        state: Progress,
        candidates: Numbers,
        start: int,
        stop: int,
        dictionary: Any,
        pairs: Array,
        answers: Array,
        rule: Quadrature,
        max_iterations: int,
        tolerance: float,
    ) -> None:
        """Solve consecutive pairs, as many at a time as a row has lanes."""
        norms = dictionary.norms
        pair, n_busy = start, 0
        _clear_padding(ws)
        for lane in range(ws.n_lanes):
            _clear_lane(ws, lane)
            pair = _admit_next(ws, state, lane, pair, stop, norms, pairs, answers)
            n_busy += state.pair[lane] != NO_PAIR
        while n_busy > 0:
            step(ws, state, dictionary, candidates, rule)
            for lane in range(ws.n_lanes):
                if state.pair[lane] == NO_PAIR:
                    continue
                done, found = _is_done(ws, state, lane, max_iterations, tolerance, rule.rounding)
                if done:
                    _leave(ws, state, lane, found, norms, answers)
                    pair = _admit_next(ws, state, lane, pair, stop, norms, pairs, answers)
                    n_busy -= state.pair[lane] == NO_PAIR

    return solve_range


solve_range = make_range_solver(_step)
