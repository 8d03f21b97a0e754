"""The compiled CPU back end of ``gauss-newton``: SIMD over pairs, threads over groups of pairs.

Pairs are cut into chunks whose borders depend on the number of pairs only, so that the result
does not depend on the number of threads. Threads take chunks as they become free; they are
plain Python threads around code that holds no interpreter lock, so there is no thread pool of
a compiler runtime that a forked data-loader worker could inherit half dead.

docs/kernel.md explains the kernel from the beginning.
"""

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
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
from transop.inference._simd import REGISTER_BYTES, numbers_from, take_ticket
from transop.inference._workspace import (
    OPERATORS_AT_ONCE,
    Dictionary,
    Progress,
    Quadrature,
    count_rows,
    open_progress,
    open_workspace,
    quadrature_for,
    round_up,
)

Array = NDArray[Any]

SMALLEST_CHUNK, LARGEST_CHUNK = 64, 512
CACHE_LINE = 64


def _digest_sources() -> int:
    """Summarise the files of the kernel."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("_[a-z]*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


def _make_entry(sources: int) -> Any:
    """Make the one function that Python calls; numba keeps it on disk once it is compiled.

    For a function it has on disk, numba looks at the file and the captured values, but not at the
    functions it calls. So it captures a number that changes with their files, ``sources``.
    """

    @njit(cache=True, nogil=True, error_model="numpy")
    def solve_chunks(
        memory: Array,
        starts: Array,
        progress: Array,
        candidates: Array,
        counter: Array,
        n_chunks: int,
        interleaved: Array,
        columns: Array,
        norms: Array,
        pairs: Array,
        answers: Array,
        table: Array,
        few: int,
        many: int,
        norm_for_few: float,
        precision: float,
        rounding: float,
        max_iterations: int,
        tolerance: float,
    ) -> int:
        """Solve chunks of pairs until no ticket is left: what Python calls, once per thread.

        The arrays are plain here, because passing named tuples from Python is slow, and get their
        names inside. Returns ``sources``.
        """
        n_pairs, n_operators = len(pairs), len(norms)
        dimension = (pairs.shape[1] - 2 * n_operators) // 2
        ws = open_workspace(memory, starts, progress.shape[1], n_operators, dimension)
        state = open_progress(progress, progress.shape[1])
        dictionary = Dictionary(
            numbers_from(interleaved, 0), numbers_from(columns, 0), numbers_from(norms, 0)
        )
        table_at = numbers_from(table, 0)
        rule = Quadrature(table_at, few, many, norm_for_few, precision, rounding)
        listed, tickets = numbers_from(candidates, 0), numbers_from(counter, 0)
        while True:
            chunk = take_ticket(tickets)
            if chunk >= n_chunks:
                return sources
            start, stop = chunk * n_pairs // n_chunks, (chunk + 1) * n_pairs // n_chunks
            solve_range(
                ws,
                state,
                listed,
                start,
                stop,
                dictionary,
                pairs,
                answers,
                rule,
                max_iterations,
                tolerance,
            )

    return solve_chunks


_SOURCES = _digest_sources()
_solve_chunks = _make_entry(_SOURCES)


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


def _thread_memory(n_rows: int, dtype: np.dtype[Any]) -> Array:
    """Return this thread's uninitialised memory of at least ``n_rows`` rows, cache-aligned."""
    held: dict[str, Array] = _kept.__dict__
    memory = held.get(dtype.name)
    if memory is None or len(memory) < n_rows * (REGISTER_BYTES // dtype.itemsize):
        lanes = REGISTER_BYTES // dtype.itemsize
        raw = np.empty(n_rows * lanes + CACHE_LINE // dtype.itemsize, dtype)
        offset = (-raw.ctypes.data % CACHE_LINE) // dtype.itemsize
        memory = raw[offset : offset + n_rows * lanes]
        held[dtype.name] = memory
    return memory


def _scale_dictionary(operators: Array) -> Dictionary:
    """Scale operators to unit norm and lay them out twice, padded with zeros."""
    m, d, _ = operators.shape
    dtype = operators.dtype
    peaks = np.abs(operators).max(axis=(1, 2), initial=0.0).astype(np.float64)
    alive = peaks > 8 * np.finfo(dtype).tiny
    safe = np.where(alive, peaks, 1.0).astype(dtype)
    unit = operators / safe[:, None, None]
    lengths = np.sqrt(np.einsum("mij,mij->m", unit, unit, dtype=np.float64, casting="same_kind"))
    unit *= np.where(alive, 1 / np.where(alive, lengths, 1.0), 0.0).astype(dtype)[:, None, None]
    n_blocks = round_up(m, OPERATORS_AT_ONCE) // OPERATORS_AT_ONCE
    wide = round_up(d, 4)
    interleaved = np.zeros((n_blocks, d, wide, OPERATORS_AT_ONCE), dtype)
    for block in range(n_blocks):
        part = unit[block * OPERATORS_AT_ONCE : (block + 1) * OPERATORS_AT_ONCE]
        interleaved[block, :, :d, : len(part)] = part.transpose(1, 2, 0)
    columns = np.zeros((m + 1, d, wide), dtype)
    columns[:m, :, :d] = unit.transpose(0, 2, 1)
    norms = np.where(alive, peaks * lengths, 0.0)
    return Dictionary(interleaved.ravel(), columns.ravel(), norms)


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
    dtype = pairs.dtype
    m, n_pairs = len(operators), len(pairs)
    dictionary = _scale_dictionary(operators.astype(dtype, copy=False))
    rule = _rule(dtype)
    lanes = REGISTER_BYTES // dtype.itemsize
    ends = np.cumsum([0, *count_rows(m, d, rule.many).values()])
    starts, n_rows = ends[:-1] * lanes, int(ends[-1])
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, n_pairs // 64))
    n_chunks = -(-n_pairs // chunk)
    counter = np.zeros(1, np.int64)

    def work() -> None:
        compiled_from = _solve_chunks(
            _thread_memory(n_rows, dtype),
            starts,
            np.zeros((len(Progress._fields), lanes)),
            np.empty(m + OPERATORS_AT_ONCE, np.int64),
            counter,
            n_chunks,
            *dictionary,
            pairs,
            answers,
            *rule,
            max_iterations,
            tolerance,
        )
        assert compiled_from == _SOURCES, "the cache holds another version of the kernel"

    n_helpers = min(n_threads, n_chunks) - 1
    helpers = [_workers.pool(n_helpers).submit(work) for _ in range(n_helpers)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that has not started finds no work left
            helper.result()
