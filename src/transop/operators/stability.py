"""What an operator's eigenvalues say about its paths: stable, or running away."""

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from transop.inputs import check_finite, check_operators, check_precise
from transop.operators.blocks import block_slices
from transop.operators.devices import where_supported


def eigenvalues(operators: Float[Tensor, "m d d"]) -> Complex[Tensor, "m d"]:
    """Compute the eigenvalues of every operator.

    Real parts are rates of growth or decay per unit of coefficient, imaginary parts are angular
    speeds. Computed on the CPU where the operators' device cannot.
    """
    check_operators(operators)
    check_precise(operators=operators)
    check_finite(operators=operators)
    matrices = where_supported(operators.detach())
    parts = [torch.linalg.eigvals(matrices[:, i, i]) for i in block_slices(matrices)]
    return torch.cat(parts, -1).to(operators.device)


def largest_real_part(operators: Float[Tensor, "m d d"]) -> Float[Tensor, " m"]:
    """Measure how far every operator is from marginal stability.

    [STABILITY]  max_i |Re lambda_i(Psi_m)|

    Coefficients come with both signs, so decay is as bad as growth: one of the two directions
    runs away. Zero means that paths turn for ever without growing.
    """
    return eigenvalues(operators).real.abs().amax(-1)
