"""What every solver hands back."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


class ConvergenceWarning(UserWarning):
    """Some pairs stopped at the iteration limit; ``InferenceResult.converged`` says which."""


@dataclass(frozen=True)
class InferenceResult:
    """Sparse coefficients, plus the evidence for trusting them."""

    coefficients: Float[Tensor, "b m"]
    objective: Float[Tensor, " b"]  # [OBJECTIVE], penalty included
    residual: Float[Tensor, " b"]  # |z1 - z1_hat| / |z1|: the l1 term stops paths short of z1
    converged: Bool[Tensor, " b"]  # per pair: a batch mean would hide failures
    iterations: Int[Tensor, " b"]  # of the run that was kept, per pair
