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
    lay_out,
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
        memory: Array, layout: Array, interleaved: Array, columns: Array, norms: Array, *rest: Any
    ) -> int:
        """Solve groups of pairs until no ticket is left."""
        dictionary = Dictionary(
            numbers_from(interleaved, 0), numbers_from(columns, 0), numbers_from(norms, 0)
        )
        _take_chunks(solve_range, open_workspace(memory, layout), dictionary, rest)
        return sources

    @njit(cache=True, nogil=True, error_model="numpy")
    def solve_singly(
        memory: Array, layout: Array, columns: Array, acts: Array, norms: Array, *rest: Any
    ) -> int:
        """Solve one pair after the other until no ticket is left."""
        blocks = Blocks(single_rows_from(columns, 0), numbers_from(acts, 0), numbers_from(norms, 0))
        _take_chunks(solve_single_range, open_single(memory, layout), blocks, rest)
        return sources

    return solve_groups, solve_singly


@inlined
def _take_chunks(solve_range: Any, ws: Workspace, dictionary: Any, rest: Any) -> None:
    """Solve the chunks of pairs whose tickets this thread gets."""
    progress, starts, candidates, counter, n_chunks, pairs, answers = rest[:7]
    table, few, many, norm_for_few, precision, rounding, limit, tolerance = rest[7:]
    state, listed = open_progress(progress, starts), numbers_from(candidates, 0)
    rule = Quadrature(numbers_from(table, 0), few, many, norm_for_few, precision, rounding)
    tickets, n_pairs = numbers_from(counter, 0), len(pairs)
    chunk = take_ticket(tickets)
    while chunk < n_chunks:
        start, stop = chunk * n_pairs // n_chunks, (chunk + 1) * n_pairs // n_chunks
        solve_range(
            ws, state, listed, start, stop, dictionary, pairs, answers, rule, limit, tolerance
        )
        chunk = take_ticket(tickets)


_SOURCES = _digest_sources()
_solve_groups, _solve_singly = _make_entries(_SOURCES)


def _start_workers() -> None:
    """Make the thread pool; a forked child makes its own, for it inherits no threads."""
    global _workers
    _workers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="transop-inference")


_workers: ThreadPoolExecutor
_start_workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_workers)

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


def _lay_out_for_groups(operators: Array, wide: int) -> Dictionary:
    """Lay unit operators out twice, padded with zeros."""
    m, d, _ = operators.shape
    unit, norms = _scale_to_unit(operators)
    n_groups = round_up(m, OPERATORS_AT_ONCE) // OPERATORS_AT_ONCE
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
    return Blocks(columns.ravel(), acts.ravel(), norms)


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
    and always finite for finite input. The operators set the precision.

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
    operators = operators.astype(dtype, copy=False)
    dictionary: Blocks | Dictionary
    if size < d or d >= MANY_DIMENSIONS:
        solve_chunks, lanes, n_blocks = _solve_singly, 1, d // size
        per_row = LONG_BYTES // dtype.itemsize
        depth = wide = round_up(size, per_row)
        dictionary = _lay_out_singly(operators, size, wide)
        points = (_pad(points[0], n_blocks, wide), _pad(points[1], n_blocks, wide))
    else:
        solve_chunks, lanes, n_blocks = _solve_groups, REGISTER_BYTES // dtype.itemsize, 1
        per_row, depth, wide = 1, d, round_up(d, 4)
        dictionary = _lay_out_for_groups(operators, wide)
    pairs = np.concatenate([*points, *per_operator], axis=1, dtype=dtype, casting="unsafe")
    rule = quadrature_for(dtype)
    sizes = (lanes, m, n_blocks * depth, n_blocks, depth, wide, wide // per_row)
    layout, n_numbers = lay_out(sizes, rule.many)
    chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, len(pairs) // 64))
    n_chunks = -(-len(pairs) // chunk)
    counter = np.zeros(1, np.int64)

    def work() -> None:
        compiled_from = solve_chunks(
            _thread_memory(n_numbers, dtype),
            layout,
            *dictionary,
            np.zeros(len(Progress._fields) * lanes),
            np.arange(len(Progress._fields)) * lanes,
            np.empty(2 * (m + OPERATORS_AT_ONCE), np.int64),
            counter,
            n_chunks,
            pairs,
            answers,
            *rule,
            *limits,
        )
        assert compiled_from == _SOURCES, "the cache holds another version of the kernel"

    n_helpers = min(n_threads, n_chunks) - 1
    helpers = [_workers.submit(work) for _ in range(n_helpers)]
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
