"""How many steps a phase has, and how fast each of them learns."""

from __future__ import annotations

import math

from torch.optim import Optimizer

_WARM_UP = 0.1  # share of the steps on which one-cycle rises
_START_DIVISOR = 25.0
_END_DIVISOR = 25.0e4
_HIGH_MOMENTUM, _LOW_MOMENTUM = 0.95, 0.85


def steps_in(epochs: float, n_items: int, batch_size: int) -> tuple[int, int]:
    """Count the steps of an epoch and of all of them; a last partial batch is left out."""
    per_epoch = max(1, n_items // batch_size)
    return per_epoch, math.ceil(epochs * per_epoch)


def schedule_rate(
    optimiser: Optimizer, schedule: str, peak: float, step: float, n_steps: int
) -> float:
    """Give the learning rate of a step, which is at most ``peak``.

    ``"constant"``, ``"cosine"`` (falls to zero) or ``"one-cycle"``: it rises for a tenth of the
    steps and falls to almost nothing, while Adam's first momentum does the opposite.
    """
    if schedule == "cosine":
        return _blend(peak, 0.0, step / max(1, n_steps))
    if schedule == "one-cycle":
        rate, momentum = _one_cycle(peak, step, n_steps)
        for group in optimiser.param_groups:
            group["betas"] = (momentum, group["betas"][1])
        return rate
    return peak


def _one_cycle(peak: float, step: float, n_steps: int) -> tuple[float, float]:
    top = _WARM_UP * n_steps - 1
    if step <= top:
        part = step / top if top > 0 else 1.0
        momentum = _blend(_HIGH_MOMENTUM, _LOW_MOMENTUM, part)
        return _blend(peak / _START_DIVISOR, peak, part), momentum
    part = (step - top) / max(1.0, n_steps - 1 - top)
    return _blend(peak, peak / _END_DIVISOR, part), _blend(_LOW_MOMENTUM, _HIGH_MOMENTUM, part)


def _blend(start: float, end: float, part: float) -> float:
    """Go from start to end along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * min(1.0, part))) / 2
