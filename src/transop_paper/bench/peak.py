"""How fast this machine multiplies and adds, measured, to judge how well a kernel uses it."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from transop.inference._lanes import fma, lane_count, load, store
from transop.inference._rooms import REGISTER_BYTES

_STEPS = 4_000_000
_CHAINS = 10  # more than two per cycle can be under way only if they do not wait for each other


@cache
def _compiled_chains() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True)
    def run_chains(ws: Any, n_steps: int) -> None:
        lanes = lane_count(ws)
        x, y = load(ws, 0), load(ws, lanes)
        a, b, c, d, e = x, x, x, x, x
        f, g, h, i, j = x, x, x, x, x
        for _ in range(n_steps):
            a, b, c = fma(a, y, x), fma(b, y, x), fma(c, y, x)
            d, e, f = fma(d, y, x), fma(e, y, x), fma(f, y, x)
            g, h = fma(g, y, x), fma(h, y, x)
            i, j = fma(i, y, x), fma(j, y, x)
        store(ws, 0, a + b + c + d + e + f + g + h + i + j)

    return run_chains


def measure_peak(n_threads: int, *, repeats: int = 5) -> float:
    """Measure single-precision floating-point operations per second, multiply-adds as two.

    The best of several runs of independent multiply-adds in registers, on as many threads as
    the kernel under test may use.
    """
    run = _compiled_chains()
    memories = [np.full(64, 0.5, np.float32) for _ in range(n_threads)]
    run(memories[0], 1)
    best = np.inf
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda memory: run(memory, _STEPS), memories))
            best = min(best, time.perf_counter() - start)
    lanes = REGISTER_BYTES // memories[0].itemsize
    return float(2 * _STEPS * _CHAINS * lanes * n_threads / best)
