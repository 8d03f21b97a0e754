"""The compiled CPU back end of ``gauss-newton``: SIMD over pairs, threads over groups of pairs.

Pairs are cut into chunks whose borders depend on the number of pairs only, so that the result
does not depend on the number of threads. Threads take chunks as they become free; they are
plain Python threads around code that holds no interpreter lock, so there is no thread pool of
a compiler runtime that a forked data-loader worker could inherit half dead.

docs/kernel.md explains the kernel from the beginning.
"""

import hashlib
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from transop.inference._iteration import (
    ANSWER_COLUMNS,
    ANSWER_CONVERGED,
    ANSWER_ITERATIONS,
    ANSWER_OBJECTIVE,
    ANSWER_RESIDUAL,
    solve_range,
)
from transop.inference._simd import (
    LONG_BYTES,
    REGISTER_BYTES,
    inlined,
    numbers_from,
    single_rows_from,
    take_ticket,
)
from transop.inference._single import solve_single_range
from transop.inference._workspace import (
    OPERATORS_AT_ONCE,
    Blocks,
    Dictionary,
    Progress,
    Quadrature,
    Workspace,
    count_rows,
    open_progress,
    open_single,
    open_workspace,
    quadrature_for,
    round_up,
)
from transop.operators.blocks import block_size

Array = NDArray[Any]

SMALLEST_CHUNK, LARGEST_CHUNK = 64, 512
MANY_DIMENSIONS = 40  # from here on one pair at a time is faster than a group
CACHE_LINE = 64


def _digest_sources() -> int:
    """Summarise the files of the kernel."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("_[a-z]*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


def _make_entries(sources: int) -> tuple[Any, Any]:
    """Make the two functions that Python calls; numba keeps them on disk once they are compiled.

    For a function it has on disk, numba looks at the file and the captured values, but not at the
    functions it calls. So both capture a number that changes with their files, ``sources``. They
    return it. The arrays are plain, because passing named tuples from Python is slow, and get
    their names inside.
    """

    @njit(cache=True, nogil=True, error_model="numpy")
    def solve_groups(
        memory: Array,
        starts: Array,
        progress: Array,
        candidates: Array,
        counter: Array,
        wide: int,
        interleaved: Array,
        columns: Array,
        norms: Array,
        pairs: Array,
        answers: Array,
        *settings: Any,
    ) -> int:
        """Solve groups of pairs until no ticket is left."""
        m, n_lanes = len(norms), progress.shape[1]
        ws = open_workspace(memory, starts, n_lanes, m, (pairs.shape[1] - 2 * m) // 2, wide)
        dictionary = Dictionary(
            numbers_from(interleaved, 0), numbers_from(columns, 0), numbers_from(norms, 0)
        )
        state, listed = open_progress(progress, n_lanes), numbers_from(candidates, 0)
        _take_chunks(solve_range, ws, state, listed, counter, dictionary, pairs, answers, settings)
        return sources

    @njit(cache=True, nogil=True, error_model="numpy")
    def solve_singly(
        memory: Array,
        starts: Array,
        progress: Array,
        candidates: Array,
        counter: Array,
        wide: int,
        columns: Array,
        acts: Array,
        _: None,
        norms: Array,
        pairs: Array,
        answers: Array,
        *settings: Any,
    ) -> int:
        """Solve one pair after the other until no ticket is left."""
        m = len(norms)
        ws = open_single(memory, starts, 1, m, (pairs.shape[1] - 2 * m) // 2, wide)
        blocks = Blocks(
            single_rows_from(columns, 0),
            numbers_from(acts, 0),
            numbers_from(candidates, m + OPERATORS_AT_ONCE),
            numbers_from(norms, 0),
        )
        state, listed = open_progress(progress, 1), numbers_from(candidates, 0)
        _take_chunks(
            solve_single_range, ws, state, listed, counter, blocks, pairs, answers, settings
        )
        return sources

    return solve_groups, solve_singly


@inlined
def _take_chunks(
    solve_range: Any,
    ws: Workspace,
    state: Progress,
    candidates: Any,
    counter: Array,
    dictionary: Any,
    pairs: Array,
    answers: Array,
    settings: Any,
) -> None:
    """Solve the chunks of pairs whose tickets this thread gets."""
    n_chunks, table, few, many, norm_for_few, precision, rounding, limit, tolerance = settings
    rule = Quadrature(numbers_from(table, 0), few, many, norm_for_few, precision, rounding)
    tickets, n_pairs = numbers_from(counter, 0), len(pairs)
    chunk = take_ticket(tickets)
    while chunk < n_chunks:
        start, stop = chunk * n_pairs // n_chunks, (chunk + 1) * n_pairs // n_chunks
        solve_range(
            ws, state, candidates, start, stop, dictionary, pairs, answers, rule, limit, tolerance
        )
        chunk = take_ticket(tickets)


_SOURCES = _digest_sources()
_solve_groups, _solve_singly = _make_entries(_SOURCES)


class _Workers:
    """A thread pool that a forked child does not inherit."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: after a fork the threads are gone and the lock may be held by nobody."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0

    def pool(self, size: int) -> ThreadPoolExecutor:
        """Return a pool of at least ``size`` threads."""
        with self._lock:
            if self._pool is None or self._size < size:
                # Threads start when needed; room for all keeps pools from being replaced.
                self._size = max(size, os.cpu_count() or 1)
                self._pool = ThreadPoolExecutor(self._size, thread_name_prefix="transop-inference")
            return self._pool


_workers = _Workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.forget)

_kept = threading.local()  # each thread keeps its workspace: fresh memory costs page faults


def _thread_memory(n_numbers: int, dtype: np.dtype[Any]) -> Array:
    """Return this thread's uninitialised memory of at least so many numbers, cache-aligned."""
    held: dict[str, Array] = _kept.__dict__
    memory = held.get(dtype.name)
    if memory is None or len(memory) < n_numbers:
        raw = np.empty(n_numbers + CACHE_LINE // dtype.itemsize, dtype)
        offset = (-raw.ctypes.data % CACHE_LINE) // dtype.itemsize
        memory = raw[offset : offset + n_numbers]
        held[dtype.name] = memory
    return memory


def _scale_to_unit(operators: Array) -> tuple[Array, Array]:
    """Scale operators to unit norm; give their norms, zero for those that move nothing."""
    dtype, every = operators.dtype, tuple(range(1, operators.ndim))
    peaks = np.abs(operators).max(axis=every, initial=0.0).astype(np.float64)
    alive = peaks > 8 * np.finfo(dtype).tiny
    safe = np.where(alive, peaks, 1.0).astype(dtype)
    unit = (operators.T / safe).T
    flat = unit.reshape(len(unit), math.prod(unit.shape[1:]))
    lengths = np.sqrt(np.einsum("mi,mi->m", flat, flat, dtype=np.float64, casting="same_kind"))
    unit = (unit.T * np.where(alive, 1 / np.where(alive, lengths, 1.0), 0.0).astype(dtype)).T
    return unit, np.where(alive, peaks * lengths, 0.0)


def _lay_out_for_groups(operators: Array) -> Dictionary:
    """Lay unit operators out twice, padded with zeros."""
    m, d, _ = operators.shape
    unit, norms = _scale_to_unit(operators)
    n_groups, wide = round_up(m, OPERATORS_AT_ONCE) // OPERATORS_AT_ONCE, round_up(d, 4)
    interleaved = np.zeros((n_groups, d, wide, OPERATORS_AT_ONCE), unit.dtype)
    for group in range(n_groups):
        part = unit[group * OPERATORS_AT_ONCE : (group + 1) * OPERATORS_AT_ONCE]
        interleaved[group, :, :d, : len(part)] = part.transpose(1, 2, 0)
    columns = np.zeros((m + 1, d, wide), unit.dtype)
    columns[:m, :, :d] = unit.transpose(0, 2, 1)
    return Dictionary(interleaved.ravel(), columns.ravel(), norms)


def _lay_out_singly(operators: Array, size: int, wide: int) -> Blocks:
    """Cut the diagonal blocks out of unit operators, transpose and pad them with zeros."""
    m, d, _ = operators.shape
    cut = operators.reshape(m, d // size, size, d // size, size)
    unit, norms = _scale_to_unit(np.einsum("mbibj->mbij", cut))
    columns = np.zeros((m + 1, d // size, wide, wide), unit.dtype)
    columns[:m, :, :size, :size] = unit.swapaxes(2, 3)
    acts = columns[:m].any(axis=(2, 3)).astype(np.int64)
    return Blocks(columns.ravel(), acts.ravel(), None, norms)


@cache
def _rule(dtype: np.dtype[Any]) -> Quadrature:
    return quadrature_for(dtype)


def solve(
    operators: Array,
    z0: Array,
    z1: Array,
    weights: Array,
    initial: Array,
    max_iterations: int,
    tolerance: float,
    n_threads: int = 1,
) -> tuple[Array, Array, Array, Array, Array]:
    """Infer sparse coefficients for many independent pairs by proximal Gauss-Newton.

    [OBJECTIVE]  min over c of  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + sum_m w_m |c_m|

    Each step minimises a quadratic model with the exact gradient plus the penalty by
    coordinate descent. A pair has converged when its model promises a relative decrease of the
    objective below ``tolerance`` (or below rounding error) and the optimality conditions hold
    to about the square root of ``tolerance``. The result is never worse than zero coefficients
    and always finite for finite input.

    Args:
        operators: the dictionary Psi, (m, d, d), float32 or float64; sets the precision.
        z0: starting points, (b, d).
        z1: targets, (b, d).
        weights: penalty per pair and operator, (b, m), not negative.
        initial: first coefficients, (b, m).
        max_iterations: evaluations of the transport allowed per pair, restart included.
        tolerance: relative decrease of the objective considered not worth a step.
        n_threads: upper bound on the threads used.

    Returns:
        coefficients (b, m), objective (b,), relative residual |z1 - z1_hat| / |z1| (b,),
        converged (b,) and iterations (b,).
    """
    dtype = np.dtype(np.float32 if operators.dtype.itemsize <= 4 else np.float64)
    limits = (max_iterations, tolerance)
    n_pairs, m = len(z0), len(operators)
    answers = np.empty((n_pairs, m + ANSWER_COLUMNS), dtype)
    if n_pairs > 0:
        _solve_all(operators, (z0, z1), (weights, initial), answers, limits, n_threads)
    return (
        answers[:, :m].copy(),
        answers[:, m + ANSWER_OBJECTIVE].copy(),
        answers[:, m + ANSWER_RESIDUAL].copy(),
        answers[:, m + ANSWER_CONVERGED] > 0,
        answers[:, m + ANSWER_ITERATIONS].astype(np.int64),
    )


def _solve_all(
    operators: Array,
    points: tuple[Array, Array],
    per_operator: tuple[Array, Array],
    answers: Array,
    limits: tuple[int, float],
    n_threads: int,
) -> None:
    """Share the chunks of pairs among threads, the calling one included."""
    dtype, m, d = answers.dtype, len(operators), points[0].shape[1]
    size = block_size(torch.from_numpy(operators))
    singly = size < d or d >= MANY_DIMENSIONS
    n_blocks, wide = d // size, round_up(size, LONG_BYTES // dtype.itemsize if singly else 4)
    operators = operators.astype(dtype, copy=False)
    layout: Blocks | Dictionary
    if singly:
        solve_chunks, lanes, layout = _solve_singly, 1, _lay_out_singly(operators, size, wide)
        points = (_pad(points[0], n_blocks, wide), _pad(points[1], n_blocks, wide))
    else:
        solve_chunks, layout = _solve_groups, _lay_out_for_groups(operators)
        lanes = REGISTER_BYTES // dtype.itemsize
    pairs = np.concatenate([*points, *per_operator], axis=1, dtype=dtype, casting="unsafe")
    rule = _rule(dtype)
    ends = np.cumsum([0, *count_rows(m, n_blocks, wide, rule.many).values()]) * lanes
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, len(pairs) // 64))
    n_chunks = -(-len(pairs) // chunk)
    counter = np.zeros(1, np.int64)

    def work() -> None:
        compiled_from = solve_chunks(
            _thread_memory(int(ends[-1]), dtype),
            ends[:-1],
            np.zeros((len(Progress._fields), lanes)),
            np.empty(2 * (m + OPERATORS_AT_ONCE), np.int64),
            counter,
            wide,
            *layout,
            pairs,
            answers,
            n_chunks,
            *rule,
            *limits,
        )
        assert compiled_from == _SOURCES, "the cache holds another version of the kernel"

    n_helpers = min(n_threads, n_chunks) - 1
    helpers = [_workers.pool(n_helpers).submit(work) for _ in range(n_helpers)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that has not started finds no work left
            helper.result()


def _pad(points: Array, n_blocks: int, wide: int) -> Array:
    """Fill up every block of every point with zeros."""
    n_pairs, d = points.shape
    padded = np.zeros((n_pairs, n_blocks, wide), points.dtype)
    padded[:, :, : d // n_blocks] = points.reshape(n_pairs, n_blocks, -1)
    return padded.reshape(n_pairs, -1)
