"""How many threads torch should use while other programs share the processor.

Threads of one operation wait for each other. Where another program takes one of the cores, all of
them wait for the thread that lost its core, and several threads can be many times slower than one.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import conv2d

logger = logging.getLogger(__name__)

_SECONDS = 0.25  # for each number of threads that is tried
_WORTH_TELLING = 1.5  # how much faster fewer threads must be


def time_calls(work: Callable[[], Any], seconds: float, *, most: int | None = None) -> float:
    """Give the seconds that a piece of work takes, repeated for a while but at least once."""
    start, n_calls = time.perf_counter(), 0
    while n_calls < 1 or (n_calls != most and time.perf_counter() - start < seconds):
        work()
        n_calls += 1
    return (time.perf_counter() - start) / n_calls


def time_threads() -> dict[int, float]:
    """Time a small convolution with all of torch's threads, half of them, and one."""
    before = torch.get_num_threads()
    images, weights = torch.rand(64, 16, 32, 32), torch.rand(32, 16, 3, 3)
    seconds = {}
    try:
        for n_threads in sorted({before, max(1, before // 2), 1}, reverse=True):
            torch.set_num_threads(n_threads)
            conv2d(images, weights)
            seconds[n_threads] = time_calls(lambda: conv2d(images, weights), _SECONDS)
    finally:
        torch.set_num_threads(before)
    return seconds


def fastest_threads() -> int:
    """Choose the number of threads that is fastest right now."""
    seconds = time_threads()
    return min(seconds, key=seconds.__getitem__)


def set_threads(wanted: int | None, device: torch.device) -> None:
    """Use as many threads as the settings ask for; without a wish, tell where fewer are faster."""
    if wanted is not None:
        torch.set_num_threads(wanted)
        return
    now = torch.get_num_threads()
    if device.type != "cpu" or now == 1 or "OMP_NUM_THREADS" in os.environ:
        return
    seconds = time_threads()
    best = min(seconds, key=seconds.__getitem__)
    if seconds[now] > _WORTH_TELLING * seconds[best]:
        logger.warning(
            "other programs are using this machine: %d threads are %.1f times as slow as %d; "
            "end the other programs, or train with --set runtime.threads=%d",
            now,
            seconds[now] / seconds[best],
            best,
            best,
        )
