"""The compiled CPU back end of ``gauss-newton``: eight pairs per register, threads over groups.

Pairs are cut into chunks whose borders depend on the number of pairs only, so that the result
does not depend on the number of threads. Threads take chunks as they become free; they are
plain Python threads around code that holds no interpreter lock, so there is no thread pool of
a compiler runtime that a forked data-loader worker could inherit half dead.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transop.inference._machine_code import load_function
from transop.inference._rooms import (
    ANSWER_COLUMNS,
    ANSWER_CONVERGED,
    ANSWER_ITERATIONS,
    ANSWER_OBJECTIVE,
    ANSWER_RESIDUAL,
    OPERATORS_AT_ONCE,
    REGISTER_BYTES,
    STATE_ROWS,
    Quadrature,
    arrange_rooms,
    quadrature_for,
    round_up,
)

Array = NDArray[Any]

DEFAULT_TOLERANCE = 1e-5
DEFAULT_MAX_ITERATIONS = 100
SMALLEST_CHUNK, LARGEST_CHUNK = 64, 512
CACHE_LINE = 64

_N_ARGUMENTS = 15  # a result, an exception, and what ``_kernel_entry`` lists


@cache
def _kernel(precision: str) -> Callable[..., int]:
    """Load the compiled kernel of a precision, compiling it if need be."""

    def compile_it() -> tuple[str, str]:
        # Here, because importing the compiler takes longer than loading what it has made.
        from transop.inference._kernel_entry import compile_kernel

        return compile_kernel(precision)

    folder = Path(__file__).parent
    sources = (
        folder / "_kernel_entry.py",
        folder / "_rooms.py",
        *sorted(folder.glob("_*_lanes.py")),
    )
    return load_function(
        compile_it,
        _N_ARGUMENTS,
        name=f"inference-{precision}",
        sources=(folder / "_lanes.py", *sources),
    )


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
    dtype = pairs.dtype
    kernel = _kernel(dtype.name)
    m, n_pairs = len(operators), len(pairs)
    dictionary = _scale_dictionary(operators.astype(dtype, copy=False))
    rule = _rule(dtype)
    lanes = REGISTER_BYTES // dtype.itemsize
    rooms = arrange_rooms(m, d, lanes, rule.many)
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, n_pairs // 64))
    n_chunks = -(-n_pairs // chunk)
    counter = np.zeros(1, np.int64)
    counts = np.array([n_chunks, n_pairs, rule.few, rule.many, max_iterations])
    numbers = np.array([rule.norm_for_few, rule.precision, rule.rounding, tolerance])
    given = (*dictionary, pairs, answers, rule.table, counts, numbers)

    def work() -> None:
        own = (
            _workspace(rooms.total, dtype),
            np.array(rooms),
            np.zeros((STATE_ROWS, lanes)),
            np.empty(m + OPERATORS_AT_ONCE, np.int64),
        )
        arrays = (np.empty(1, np.int64), np.empty(1, np.int64), *own, counter, *given)
        failed = kernel(*(array.ctypes.data for array in arrays))
        assert not failed, "the kernel raises no exceptions"

    n_helpers = min(n_threads, n_chunks) - 1
    helpers = [_workers.pool(n_helpers).submit(work) for _ in range(n_helpers)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that has not started finds no work left
            helper.result()
