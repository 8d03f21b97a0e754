"""What a computation takes in time and memory, and how fast this machine computes at best."""

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Cost:
    """What one computation took."""

    seconds: float  # wall-clock time
    # highest memory above that at the start; None where the system cannot tell
    megabytes: float | None


def cost_of(compute: Callable[[], _Result]) -> tuple[_Result, Cost]:
    """Run something and note time and memory."""
    before = _start_watching_memory()
    start = time.perf_counter()
    result = compute()
    seconds = time.perf_counter() - start
    peak = _memory_now("VmHWM")
    if before is None or peak is None:
        return result, Cost(seconds, None)
    return result, Cost(seconds, max(0.0, peak - before))


def _start_watching_memory() -> float | None:
    """Reset the kernel's high-water mark of this process; None where there is none (not Linux)."""
    try:
        # What was freed before but not handed back would hide what is used from now on.
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):  # another system, or another C library
        return None
    return _memory_now("VmRSS")


def _memory_now(name: str) -> float | None:
    """Read what this process has now (VmRSS) or had at most since the reset (VmHWM), in MB."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    values = [int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")]
    return values[0] if values else None


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
