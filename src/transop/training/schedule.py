"""Learning rates as functions of the step alone, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math

from torch.optim import Optimizer

_WARM_UP = 0.1  # share of the steps on which one-cycle rises
_START_DIVISOR = 25.0
_END_DIVISOR = 25.0e4
_HIGH_MOMENTUM, _LOW_MOMENTUM = 0.95, 0.85


def schedule_rate(
    optimiser: Optimizer, schedule: str, peak: float, step: int, n_steps: int
) -> float:
    """Give the learning rate of a step; one-cycle also sets Adam's first momentum.

    Args:
        optimiser: whose momentum follows the schedule.
        schedule: ``"constant"``, ``"cosine"`` (falls to zero) or ``"one-cycle"`` (rises for a
            tenth of the steps and falls to almost nothing, while the first momentum does the
            opposite).
        peak: the highest learning rate.
        step: counted from zero.
        n_steps: length of the whole phase.
    """
    if schedule == "cosine":
        return _blend(peak, 0.0, step / max(1, n_steps))
    if schedule == "one-cycle":
        rate, momentum = _one_cycle(peak, step, n_steps)
        for group in optimiser.param_groups:
            group["betas"] = (momentum, group["betas"][1])
        return rate
    return peak


def _one_cycle(peak: float, step: int, n_steps: int) -> tuple[float, float]:
    top = _WARM_UP * n_steps - 1
    if step <= top:
        part = step / top if top > 0 else 1.0
        return (
            _blend(peak / _START_DIVISOR, peak, part),
            _blend(_HIGH_MOMENTUM, _LOW_MOMENTUM, part),
        )
    part = (step - top) / max(1.0, n_steps - 1 - top)
    return _blend(peak, peak / _END_DIVISOR, part), _blend(_LOW_MOMENTUM, _HIGH_MOMENTUM, part)


def _blend(start: float, end: float, part: float) -> float:
    """Go from start to end along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * min(1.0, part))) / 2
