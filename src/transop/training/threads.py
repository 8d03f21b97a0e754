"""How many threads torch should use while other programs share the processor.

Threads of one operation wait for each other. Where another program takes one of the cores, all of
them wait for the thread that lost its core, and several threads can be many times slower than one.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d

logger = logging.getLogger(__name__)

_SECONDS = 0.25  # for each number of threads that is tried
_WORTH_CHANGING = 1.3  # how much faster another number must be
_EVERY = 60.0  # seconds between two trials
_SOONEST = 5.0  # seconds between two trials if steps have become slow meanwhile
_STEPS = 5  # whose mean duration is compared
_SLOW = 2.0  # times the fastest mean since the last trial


class ThreadWatch:
    """Keeps torch on the number of threads that is fast, as other programs come and go.

    It does nothing where somebody has chosen: by ``runtime.threads`` or ``OMP_NUM_THREADS``. A
    different number of threads rounds differently, so choose one for results that are equal to
    the last bit.
    """

    def __init__(self, wanted: int | None, device: torch.device) -> None:
        """Set the number that the settings ask for; None leaves the choice to the watch."""
        if wanted is not None:
            torch.set_num_threads(wanted)
        self._most = torch.get_num_threads()
        chosen = wanted is not None or "OMP_NUM_THREADS" in os.environ
        self._works = not chosen and device.type == "cpu" and self._most > 1
        self._tried = -_EVERY
        self._first, self._n_steps, self._fastest = 0.0, 0, float("inf")

    def check(self) -> None:
        """Call this after every step; it tries the numbers of threads and takes the fastest.

        It tries once a minute, and sooner if steps have suddenly become slow.
        """
        if not self._works or not self._is_time():
            return
        seconds, now = time_threads(self._most), torch.get_num_threads()
        best = min(seconds, key=seconds.__getitem__)
        if seconds[now] > _WORTH_CHANGING * seconds[best]:
            torch.set_num_threads(best)
            logger.warning(
                "%s: training with %d instead of %d threads, %.1f times as fast "
                "(--set runtime.threads=N fixes the number)",
                "other programs are using this machine" if best < now else "cores are free again",
                best,
                now,
                seconds[now] / seconds[best],
            )
        self._tried = self._first = time.monotonic()
        self._n_steps, self._fastest = 0, float("inf")

    def _is_time(self) -> bool:
        now = time.monotonic()
        self._n_steps += 1
        is_slow = False
        if self._n_steps == _STEPS:
            mean = (now - self._first) / _STEPS
            is_slow = mean > _SLOW * self._fastest
            self._first, self._n_steps, self._fastest = now, 0, min(mean, self._fastest)
        return now - self._tried >= (_SOONEST if is_slow else _EVERY)


@contextmanager
def threads_put_back() -> Iterator[None]:
    """Give torch back the threads it had, whatever number was used in between."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def time_calls(work: Callable[[], Any], seconds: float, *, most: int | None = None) -> float:
    """Give the seconds that a piece of work takes, repeated for a while but at least once."""
    start, n_calls = time.perf_counter(), 0
    while n_calls < 1 or (n_calls != most and time.perf_counter() - start < seconds):
        work()
        n_calls += 1
    return (time.perf_counter() - start) / n_calls


def time_threads(most: int) -> dict[int, float]:
    """Time a small piece of training with this many threads, half of them, and one."""
    images = torch.ones(64, 32, 16, 16)
    weights = [torch.full((32, 32, 3, 3), 1e-3, requires_grad=True) for _ in range(4)]
    seconds = {}
    with threads_put_back():
        for n_threads in sorted({most, max(1, most // 2), 1}):
            torch.set_num_threads(n_threads)
            seconds[n_threads] = time_calls(lambda: _learn(images, weights), _SECONDS)
    return seconds


@torch.enable_grad()
def _learn(images: Tensor, weights: list[Tensor]) -> None:
    """Go forwards and backwards: many short operations, which all threads must finish together."""
    for weight in weights:
        images = conv2d(images, weight, padding=1).relu()
    torch.autograd.grad(images.mean(), weights)
