"""Recognise the paper's signs of failure while training, and say what to change.

The signs are those of its appendix on parameter selection: operators or coefficients that vanish,
paths that run away, steps that do harm, and values that are not finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.operators import TransportOperators, largest_real_part

_ALIVE = 0.05  # smallest Frobenius norm of an operator that counts as in use
_MANY_HARMFUL = 0.6
_ALL_ZERO = 0.95
_ALL_USED = 0.9
_FAST_GROWTH = math.log(100.0)
_HUGE_MAGNITUDE = 20.0
_SHRUNKEN = 0.5
_ENOUGH_STEPS = 10  # before shares over steps mean anything


@dataclass
class OperatorMonitor:
    """Collects evidence step by step and turns it into numbers and findings."""

    section: str  # of the settings: advice names it
    # Plain counters; kept in the loop's checkpoint, so that a resumed run reports the same numbers.
    memory: dict[str, Any] = field(default_factory=dict)

    def observe(
        self,
        coefficients: Float[Tensor, "b m"],
        before: Float[Tensor, " b"],
        after: Float[Tensor, " b"],
        eased: float = 0.0,
    ) -> float:
        """Take note of one step.

        [DIFFERENCE]  E_diff = data term before the step - data term after it, same coefficients

        Differs from the paper: a step counts as harmful when the whole objective rose. Towards
        the end of training decay and fit hold each other, and a step that gives a little of the
        one for more of the other does no harm. ``eased`` is by how much the step lowered the
        regularisation (decay and real parts).

        Returns:
            E_diff averaged over the batch; positive for a step that helped.
        """
        difference = float((before - after).mean())
        used = coefficients != 0
        seen: dict[str, Any] = {
            "steps": 1,
            "negative": int(difference < 0),
            "harmful": int(difference + eased < 0),
            "difference": difference,
            "histogram": torch.bincount(used.sum(1), minlength=used.shape[1] + 1).tolist(),
            "uses": used.sum(0).tolist(),
            "reach": coefficients.abs().sum(0).tolist(),
        }
        for name, value in seen.items():
            so_far = self.memory.get(name)
            if so_far is not None and isinstance(value, list):
                value = [a + b for a, b in zip(so_far, value, strict=True)]
            elif so_far is not None:
                value = so_far + value
            self.memory[name] = value
        return difference

    def review(
        self, operators: TransportOperators, latents: Float[Tensor, "n d"]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Summarise the steps since the last review and start counting anew.

        What is returned are numbers for the metrics, and a finding for every sign of failure.
        """
        counted, self.memory = self.memory, {"latent_start": self.memory.get("latent_start")}
        numbers = _describe(operators, latents)
        if self.memory["latent_start"] is None:
            self.memory["latent_start"] = numbers["latent_magnitude"]
        if counted.get("steps"):
            numbers |= _describe_steps(counted)
        signs = _signs_of_size(numbers, self.memory["latent_start"], self.section)
        if counted.get("steps", 0) >= _ENOUGH_STEPS:
            signs |= _signs_of_use(numbers, self.section)
        return numbers, signs

    def explain_overflow(self) -> str:
        """Say what to change when values stop being finite."""
        return (
            "the operators have probably grown until paths overflow: raise "
            f"{self.section}.operator_decay, or lower {self.section}.sparsity_weight or the "
            "learning rate"
        )


def _describe(operators: TransportOperators, latents: Tensor) -> dict[str, Any]:
    magnitudes = operators.magnitudes()
    alive = magnitudes > _ALIVE
    rates = largest_real_part(operators.operators)
    return {
        "magnitudes": [round(v, 5) for v in magnitudes.tolist()],
        "living": int(alive.sum()),
        "real_parts": [round(v, 5) for v in rates.tolist()],
        "largest_real_part": float(rates[alive].max()) if bool(alive.any()) else 0.0,
        "latent_magnitude": float(latents.norm(dim=1).mean()),
    }


def _describe_steps(counted: dict[str, Any]) -> dict[str, Any]:
    histogram = counted["histogram"]
    n_pairs = sum(histogram)
    return {
        "operator_difference": counted["difference"] / counted["steps"],
        "negative_differences": counted["negative"] / counted["steps"],
        "harmful_steps": counted["harmful"] / counted["steps"],
        "nonzeros": sum(n * pairs for n, pairs in enumerate(histogram)) / n_pairs,
        "without_path": histogram[0] / n_pairs,
        "nonzero_histogram": histogram,
        "uses": [n / n_pairs for n in counted["uses"]],
        "mean_coefficients": [
            round(total / max(1, n), 5)
            for total, n in zip(counted["reach"], counted["uses"], strict=True)
        ],
    }


def _signs_of_size(numbers: dict[str, Any], latent_start: float, section: str) -> dict[str, str]:
    signs = {}
    magnitudes = numbers["magnitudes"]
    largest = max(magnitudes, default=0.0)
    if numbers["living"] == 0:
        signs["operators-vanished"] = (
            f"all {len(magnitudes)} operators have shrunk to almost nothing (largest norm "
            f"{largest:.2g}), so nothing moves: lower {section}.operator_decay"
        )
    if largest > _HUGE_MAGNITUDE:
        signs["operators-huge"] = (
            f"an operator has grown to norm {largest:.3g}, where training becomes unstable: "
            f"raise {section}.operator_decay or lower {section}.sparsity_weight"
        )
    if numbers["latent_magnitude"] < _SHRUNKEN * latent_start:
        signs["latents-shrunk"] = (
            "the latent vectors have shrunk to less than half their size, which makes every path "
            f"short and meaningless: lower {section}.operator_decay or the network's learning rate"
        )
    return signs


def _signs_of_use(numbers: dict[str, Any], section: str) -> dict[str, str]:
    signs = {}
    if numbers["without_path"] > _ALL_ZERO:
        signs["coefficients-vanished"] = (
            f"{numbers['without_path']:.0%} of the pairs get no path at all (every coefficient is "
            f"zero): lower {section}.sparsity_weight"
        )
    elif numbers["living"] > 2 and numbers["nonzeros"] > _ALL_USED * numbers["living"]:
        signs["everything-used"] = (
            f"almost every operator is used for every pair ({numbers['nonzeros']:.1f} of "
            f"{numbers['living']}), so none learns a meaning: raise {section}.sparsity_weight"
        )
    names = ("mean_coefficients", "real_parts", "magnitudes")
    moves = zip(*(numbers[name] for name in names), strict=True)
    # Three times the coefficient of a typical path: an extrapolation to t = 3.
    growth = [3 * reach * rate for reach, rate, norm in moves if norm > _ALIVE]
    running_away = sum(g > _FAST_GROWTH for g in growth)
    if running_away > len(growth) / 2:
        signs["paths-run-away"] = (
            f"{running_away} of {len(growth)} operators make paths that grow a hundredfold "
            f"within three times the distance of a pair: raise {section}.operator_decay or "
            f"{section}.real_part_penalty"
        )
    if numbers["harmful_steps"] > _MANY_HARMFUL:
        signs["steps-do-harm"] = (
            f"{numbers['harmful_steps']:.0%} of the steps raised the objective, decay included: "
            "lower the operators' learning rate, or in fine-tuning "
            f"{section}.operator_decay or the network's learning rate"
        )
    return signs
