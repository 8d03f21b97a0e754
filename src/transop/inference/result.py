"""What every solver hands back."""

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class ConvergenceWarning(UserWarning):
    """Some pairs did not converge; ``InferenceResult.converged`` says which."""


@dataclass(frozen=True)
class InferenceResult:
    """Sparse coefficients, plus the evidence for trusting them.

    Attributes:
        coefficients: c, one row per pair.
        objective: [OBJECTIVE] of each pair, penalty included.
        residual: |z1 - z1_hat| / |z1| of each pair: the l1 term stops paths short of z1.
        converged: whether each pair is stationary to the tolerance; a batch mean would hide
            failures.
        iterations: of the run that was kept, per pair.
    """

    coefficients: Float[Tensor, "b m"]
    objective: Float[Tensor, " b"]
    residual: Float[Tensor, " b"]
    converged: Bool[Tensor, " b"]
    iterations: Int[Tensor, " b"]

    def to(self, device: torch.device) -> "InferenceResult":
        """Move everything to a device."""
        fields = dataclasses.fields(InferenceResult)
        return InferenceResult(**{f.name: getattr(self, f.name).to(device) for f in fields})
