"""How fast this machine computes at best."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

_STEPS = 4_000_000
_NUMBERS = 96  # twelve registers of eight: independent sums that need not wait for each other


@cache
def _compiled_sums() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True, fastmath={"contract"})
    def multiply_and_add(sums: Any, factor: Any, n_steps: int) -> None:
        for _ in range(n_steps):
            for i in range(_NUMBERS):
                sums[i] = sums[i] * factor + factor

    return multiply_and_add


def measure_peak(n_threads: int, *, repeats: int = 5) -> float:
    """Measure single-precision floating-point operations per second, multiply-adds as two.

    The best of several runs of independent multiply-adds in registers, on as many threads as
    the kernel under test may use.
    """
    run = _compiled_sums()
    factor = np.float32(0.5)
    memories = [np.full(_NUMBERS, 0.5, np.float32) for _ in range(n_threads)]
    run(memories[0], factor, 1)
    best = np.inf
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda memory: run(memory, factor, _STEPS), memories))
            best = min(best, time.perf_counter() - start)
    return float(2 * _STEPS * _NUMBERS * n_threads / best)
