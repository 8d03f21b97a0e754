"""What coefficient inference and the dictionary step minimise."""

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError, show
from transop.inputs import check_alike, check_number, check_paired
from transop.operators import transport

SparsityWeight = float | Tensor


def objective(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "b m"],
    z0: Float[Tensor, "b d"],
    z1: Float[Tensor, "b d"],
    sparsity_weight: SparsityWeight,
) -> Float[Tensor, " b"]:
    """Evaluate, per pair, what coefficient inference minimises.

    [OBJECTIVE]  1/2 | z1 - expm(sum_m c_m Psi_m) z0 |^2 + sum_m zeta_m |c_m|

    The term of the operators' size does not depend on the coefficients and is left out; see
    :func:`operator_penalty`. Differentiable in the first four arguments.

    Args:
        operators: the dictionary Psi.
        coefficients: c, one row per pair.
        z0: starting points, in scaled latent units.
        z1: end points.
        sparsity_weight: zeta; one number, one per operator, or one per pair and operator.
    """
    check_paired(operators, coefficients, z0=z0, z1=z1)
    weights = expand_weight(sparsity_weight, coefficients)
    missed = z1 - transport(operators, coefficients, z0)
    return missed.square().sum(-1) / 2 + (weights * coefficients.abs()).sum(-1)


def operator_penalty(operators: Float[Tensor, "m d d"], operator_decay: float) -> Float[Tensor, ""]:
    """Evaluate the part of the objective that keeps operators small.

    [OBJECTIVE]  gamma/2 sum_m |Psi_m|_F^2
    """
    return operators.square().sum() * (operator_decay / 2)


def expand_weight(
    sparsity_weight: SparsityWeight, coefficients: Float[Tensor, "b m"]
) -> Float[Tensor, "b m"]:
    """Give every pair and operator its sparsity weight, checking that it makes sense.

    Raises:
        TensorError: the shape fits neither (m,) nor (b, m), or a weight is negative or not
            finite.
    """
    if isinstance(sparsity_weight, Tensor):
        check_alike(coefficients=coefficients, sparsity_weight=sparsity_weight)
        if sparsity_weight.shape not in ((), coefficients.shape[1:], coefficients.shape):
            raise TensorError(
                f"sparsity_weight has shape {tuple(sparsity_weight.shape)}; pass one number, "
                f"shape {tuple(coefficients.shape[1:])} or shape {tuple(coefficients.shape)}"
            )
        weights = sparsity_weight.detach()
    else:
        number = check_number("sparsity_weight", sparsity_weight, "a finite number from 0 on")
        weights = coefficients.new_tensor(number)
    if not bool(((weights >= 0) & torch.isfinite(weights)).all()):
        raise TensorError(
            f"sparsity_weight must be finite and not negative, but is {show(sparsity_weight)}"
        )
    return weights.expand(coefficients.shape)
