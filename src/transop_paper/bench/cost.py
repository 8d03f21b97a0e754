"""What a computation takes: time, and memory above that at its start."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Cost:
    """What one computation took.

    Attributes:
        seconds: wall-clock time.
        megabytes: highest memory above that at the start; None where the system cannot tell.
    """

    seconds: float
    megabytes: float | None


def cost_of(compute: Callable[[], _Result]) -> tuple[_Result, Cost]:
    """Run something and note time and memory."""
    before = start_watching_memory()
    start = time.perf_counter()
    result = compute()
    seconds = time.perf_counter() - start
    peak = memory_now("VmHWM")
    if before is None or peak is None:
        return result, Cost(seconds, None)
    return result, Cost(seconds, max(0.0, peak - before))


def start_watching_memory() -> float | None:
    """Reset the kernel's high-water mark of this process; None where there is none (not Linux)."""
    try:
        # What was freed before but not handed back would hide what is used from now on.
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):  # another system, or another C library
        return None
    return memory_now("VmRSS")


def memory_now(name: str) -> float | None:
    """Read one memory figure of this process, in megabytes.

    Args:
        name: as the kernel calls it: VmRSS, VmHWM (the highest since the last reset), RssAnon.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    values = [int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")]
    return values[0] if values else None
