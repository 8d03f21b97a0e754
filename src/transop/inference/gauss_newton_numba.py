"""The compiled CPU back end of ``gauss-newton``: eight pairs per register, threads over groups.

Pairs are cut into chunks whose borders depend on the number of pairs only, so that the result
does not depend on the number of threads. Threads take chunks as they become free; they are
plain Python threads around code that holds no interpreter lock, so there is no thread pool of
a compiler runtime that a forked data-loader worker could inherit half dead.
"""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from transop.inference import _flow_lanes, _group_lanes, _lanes, _lasso_lanes, _model_lanes, _rooms
from transop.inference._group_lanes import (
    ANSWER_COLUMNS,
    ANSWER_CONVERGED,
    ANSWER_ITERATIONS,
    ANSWER_OBJECTIVE,
    ANSWER_RESIDUAL,
    STATE_ROWS,
    solve_range,
)
from transop.inference._lanes import REGISTER_BYTES, take_ticket
from transop.inference._rooms import (
    OPERATORS_AT_ONCE,
    Quadrature,
    Rooms,
    arrange_rooms,
    quadrature_for,
    round_up,
)
from transop.inference._sources import digest_sources

Array = NDArray[Any]

DEFAULT_TOLERANCE = 1e-5
DEFAULT_MAX_ITERATIONS = 100
SMALLEST_CHUNK, LARGEST_CHUNK = 64, 512
CACHE_LINE = 64

_SOURCES = (_lanes, _rooms, _flow_lanes, _model_lanes, _lasso_lanes, _group_lanes)

_log = logging.getLogger(__name__)


def _make_entry(source_digest: int) -> Any:
    @njit(cache=True, nogil=True, error_model="numpy")
    def solve_chunks(
        ws: Array,
        rooms_fields: tuple[int, ...],
        state: Array,
        listed: Array,
        counter: Array,
        n_chunks: int,
        psi: Array,
        columns: Array,
        norms: Array,
        pairs: Array,
        answers: Array,
        rule_fields: tuple[Any, ...],
        max_iterations: int,
        tolerance: float,
    ) -> int:
        # Plain tuples come in, because looking up the type of a named one takes 0.1 ms.
        rooms = Rooms(*rooms_fields)
        rule = Quadrature(*rule_fields)
        n_pairs = len(pairs)
        while True:
            chunk = take_ticket(counter)
            if chunk >= n_chunks:
                return source_digest
            start, stop = chunk * n_pairs // n_chunks, (chunk + 1) * n_pairs // n_chunks
            solve_range(
                ws,
                rooms,
                state,
                listed,
                start,
                stop,
                psi,
                columns,
                norms,
                pairs,
                answers,
                rule,
                max_iterations,
                tolerance,
            )

    return solve_chunks


_solve_chunks = _make_entry(digest_sources(_SOURCES))


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


def _workspace(size: int, dtype: np.dtype[Any]) -> Array:
    """Return this thread's uninitialised memory of at least ``size`` numbers, cache-aligned."""
    held: dict[str, Array] = _kept.__dict__
    memory = held.get(dtype.name)
    if memory is None or len(memory) < size:
        spare = CACHE_LINE // dtype.itemsize
        raw = np.empty(size + spare, dtype)
        offset = (-raw.ctypes.data % CACHE_LINE) // dtype.itemsize
        memory = held[dtype.name] = raw[offset : offset + size]
    return memory


def _scale_dictionary(operators: Array) -> tuple[Array, Array, Array]:
    """Scale operators to unit norm and lay them out twice, padded with zeros.

    Returns:
        Eight operators interleaved entry by entry, for sums over operators; every operator
        column by column, for products with one vector; and the norms, zero for operators
        that move nothing.
    """
    m, d, _ = operators.shape
    dtype = operators.dtype
    peaks = np.abs(operators).max(axis=(1, 2), initial=0.0).astype(np.float64)
    alive = peaks > 8 * np.finfo(dtype).tiny
    safe = np.where(alive, peaks, 1.0).astype(dtype)
    unit = operators / safe[:, None, None]
    lengths = np.sqrt(np.einsum("mij,mij->m", unit, unit, dtype=np.float64, casting="same_kind"))
    unit *= np.where(alive, 1 / np.where(alive, lengths, 1.0), 0.0).astype(dtype)[:, None, None]
    n_blocks = round_up(m, OPERATORS_AT_ONCE) // OPERATORS_AT_ONCE
    interleaved = np.zeros((n_blocks, d * d, OPERATORS_AT_ONCE), dtype)
    for block in range(n_blocks):
        part = unit[block * OPERATORS_AT_ONCE : (block + 1) * OPERATORS_AT_ONCE]
        interleaved[block, :, : len(part)] = part.reshape(len(part), d * d).T
    columns = np.zeros((m + 1, d, round_up(d, 4)), dtype)
    columns[:m, :, :d] = unit.transpose(0, 2, 1)
    return interleaved.ravel(), columns.ravel(), np.where(alive, peaks * lengths, 0.0)


@cache
def _rule(dtype: np.dtype[Any]) -> Quadrature:
    return quadrature_for(dtype)


def _announce_compilation() -> None:
    """Log that the first call will take long, unless the disk cache looks usable."""
    folder, source = Path(_solve_chunks.stats.cache_path), Path(__file__)
    changed = max(Path(str(module.__file__)).stat().st_mtime for module in _SOURCES)
    found = list(folder.glob(f"{source.stem}*solve_chunks*.nbi")) if folder.is_dir() else []
    if not any(index.stat().st_mtime > changed for index in found):
        _log.info("compiling the inference kernel (once per machine and version; about 15 s)")


def solve(
    operators: Array,
    z0: Array,
    z1: Array,
    weights: Array,
    initial: Array,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    tolerance: float = DEFAULT_TOLERANCE,
    n_threads: int = 1,
) -> tuple[Array, Array, Array, Array, Array]:
    """Infer sparse coefficients for many independent pairs by proximal Gauss-Newton.

    [OBJECTIVE]  min over c of  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + sum_m w_m |c_m|

    Each step minimises a quadratic model with the exact gradient plus the penalty by
    coordinate descent. A pair stops when its model promises a relative decrease of the
    objective below ``tolerance`` (or below rounding error). The result is never worse than
    zero coefficients and always finite for finite input.

    Args:
        operators: the dictionary Psi, (m, d, d), float32 or float64; sets the precision.
        z0: starting points, (b, d).
        z1: targets, (b, d).
        weights: penalty per pair and operator, (b, m), not negative.
        initial: first coefficients, (b, m).
        max_iterations: evaluations of the transport allowed per pair.
        tolerance: relative decrease of the objective considered not worth a step.
        n_threads: upper bound on the threads used.

    Returns:
        coefficients (b, m), objective (b,), relative residual |z1 - z1_hat| / |z1| (b,),
        converged (b,) and iterations (b,).
    """
    dtype = np.dtype(np.float32 if operators.dtype.itemsize <= 4 else np.float64)
    n_pairs, d = z0.shape
    m = len(operators)
    answers = np.empty((n_pairs, m + ANSWER_COLUMNS), dtype)
    if n_pairs > 0:
        pairs = np.concatenate([z0, z1, weights, initial], axis=1, dtype=dtype, casting="unsafe")
        _solve_all(operators, pairs, answers, d, max_iterations, tolerance, n_threads)
    return (
        answers[:, :m].copy(),
        answers[:, m + ANSWER_OBJECTIVE].copy(),
        answers[:, m + ANSWER_RESIDUAL].copy(),
        answers[:, m + ANSWER_CONVERGED] > 0,
        answers[:, m + ANSWER_ITERATIONS].astype(np.int64),
    )


def _solve_all(
    operators: Array,
    pairs: Array,
    answers: Array,
    d: int,
    max_iterations: int,
    tolerance: float,
    n_threads: int,
) -> None:
    """Share the chunks of pairs among threads, the calling one included."""
    if not _solve_chunks.signatures:
        _announce_compilation()
    dtype = pairs.dtype
    m, n_pairs = len(operators), len(pairs)
    psi, columns, norms = _scale_dictionary(operators.astype(dtype, copy=False))
    rule = _rule(dtype)
    lanes = REGISTER_BYTES // dtype.itemsize
    rooms = arrange_rooms(m, d, lanes, rule.many)
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, n_pairs // 64))
    n_chunks = -(-n_pairs // chunk)
    counter = np.zeros(1, np.int64)

    def work() -> None:
        _solve_chunks(
            _workspace(rooms.total, dtype),
            tuple(rooms),
            np.zeros((STATE_ROWS, lanes)),
            np.empty(m + OPERATORS_AT_ONCE, np.int64),
            counter,
            n_chunks,
            psi,
            columns,
            norms,
            pairs,
            answers,
            tuple(rule),
            int(max_iterations),
            float(tolerance),
        )

    n_helpers = min(n_threads, n_chunks) - 1
    helpers = [_workers.pool(n_helpers).submit(work) for _ in range(n_helpers)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that has not started finds no work left
            helper.result()
