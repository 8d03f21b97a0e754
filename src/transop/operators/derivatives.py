"""Analytic derivatives of transport, by the same series that computes it; no autograd graph.

With the residual r = z1 - expm(A) z0 and the data term f = |r|^2 / 2,

    df/dA = - int_0^1 expm((1-s) A)^T r (expm(s A) z0)^T ds,

and A = sum_m c_m Psi_m passes it on: df/dPsi_m = c_m df/dA and df/dc_m = <Psi_m, df/dA>.
"""

from functools import lru_cache
from math import factorial

import torch
from jaxtyping import Float
from torch import Tensor

from transop.inputs import check_finite, check_paired
from transop.operators.blocks import block_slices
from transop.operators.series import (
    SeriesPlan,
    apply_matrix,
    build_generator,
    largest_norm,
    plan_series,
)

# Entries of generators worked on at once: enough to make a call worth its overhead, little
# enough (4 MiB in float32) that memory does not grow with the batch.
_CHUNK_ENTRIES = 2**20


@torch.no_grad()
def data_gradient(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "b m"],
    z0: Float[Tensor, "b d"],
    z1: Float[Tensor, "b d"],
    *,
    within_blocks: bool = False,
) -> tuple[Float[Tensor, " b"], Float[Tensor, "m d d"]]:
    """Differentiate the data term of the objective with respect to the operators.

    [OPERATORGRADIENT]  (1/b) sum_b c_bm df_b/dA_b,  f_b = 1/2 | z1 - expm(A_b) z0 |^2

    Args:
        operators: the dictionary Psi.
        coefficients: c, one row per pair, held fixed.
        z0: starting points, in scaled latent units.
        z1: end points.
        within_blocks: of block-diagonal operators, differentiate the blocks only; the gradient
            outside them is then zero.

    Returns:
        The data term of every pair, and the gradient of its mean over the batch.
    """
    check_paired(operators, coefficients, z0=z0, z1=z1)
    check_finite(operators=operators, coefficients=coefficients, z0=z0, z1=z1)
    losses, gradient = z0.new_zeros(z0.shape[0]), torch.zeros_like(operators)
    for i in block_slices(operators) if within_blocks else [slice(None)]:
        data, gradient[:, i, i] = _gradient_of_block(
            operators[:, i, i], coefficients, z0[:, i], z1[:, i]
        )
        losses += data
    return losses, gradient


def _gradient_of_block(
    operators: Tensor, coefficients: Tensor, z0: Tensor, z1: Tensor
) -> tuple[Tensor, Tensor]:
    m, d, _ = operators.shape
    total = operators.new_zeros(m, d * d)
    losses = z0.new_empty(z0.shape[0])
    size = max(1, _CHUNK_ENTRIES // max(1, d * d))
    for start in range(0, z0.shape[0], size):
        part = slice(start, start + size)
        generator = build_generator(operators, coefficients[part])
        losses[part], slope = differentiate_data_term(generator, z0[part], z1[part])
        total.addmm_(coefficients[part].mT, slope.flatten(1))
    return losses, total.div_(max(1, z0.shape[0])).reshape(m, d, d)


def differentiate_data_term(
    generator: Float[Tensor, "b d d"], z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"]
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b d d"]]:
    """Evaluate the data term of each pair and its gradient with respect to the generator.

    [GENERATORGRADIENT]  df/dA = - int_0^1 expm((1-s) A)^T r (expm(s A) z0)^T ds

    The integrand is a polynomial once both exponentials are series, so the integral is exact:
    int_0^1 s^k (1-s)^j / (k! j!) ds = 1 / (j+k+1)!.
    """
    plan = plan_series(largest_norm(generator), z0.dtype)
    step = generator / plan.n_steps
    z, forwards = _collect_powers(step, z0.unsqueeze(-1), plan)
    residual = z1.unsqueeze(-1) - z
    _, backwards = _collect_powers(step.mT.contiguous(), -residual, plan)
    mixing = _integral_of_powers(plan.n_terms, z0.dtype).to(z0.device)
    slope = torch.zeros_like(generator)
    for forward, backward in zip(forwards, reversed(backwards), strict=True):
        slope.baddbmm_(backward @ mixing, forward.mT, alpha=1.0 / plan.n_steps)
    return residual.square().sum((-2, -1)) / 2, slope


def transport_jacobian(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "b m"],
    points: Float[Tensor, "b d"],
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b m d"]]:
    """Move points and differentiate where they end with respect to every coefficient.

    [JACOBIAN]  J_m = d/dc_m expm(sum_m c_m Psi_m) z0

    The terms v_k = A v_(k-1) / k of the series are differentiated one by one:
    dv_k = (A dv_(k-1) + Psi_m v_(k-1)) / k.

    Returns:
        The moved points, and one row per operator of their derivative.
    """
    check_paired(operators, coefficients, points=points)
    if len(blocks := block_slices(operators)) > 1:
        parts = ((operators[:, i, i], coefficients, points[:, i]) for i in blocks)
        moved, slopes = zip(*(transport_jacobian(*part) for part in parts), strict=True)
        return torch.cat(moved, -1), torch.cat(slopes, -1)
    m, d, _ = operators.shape
    generator = build_generator(operators, coefficients)
    plan = plan_series(largest_norm(generator), points.dtype)
    step = (generator / plan.n_steps).mT.contiguous()
    pushes = operators.permute(2, 0, 1).reshape(d, m * d) / plan.n_steps
    z, jacobian = points, points.new_zeros(points.shape[0], m, d)
    for _ in range(plan.n_steps):
        term, slope = z, jacobian
        for k in range(1, plan.n_terms + 1):
            pushed = (term @ pushes).reshape(jacobian.shape)
            slope = torch.baddbmm(pushed, slope, step, beta=1.0 / k, alpha=1.0 / k)
            term = torch.bmm(term.unsqueeze(1), step).squeeze(1) / k
            z, jacobian = z + term, jacobian + slope
    return z, jacobian


def _collect_powers(step: Tensor, vector: Tensor, plan: SeriesPlan) -> tuple[Tensor, list[Tensor]]:
    """Apply expm(step) n_steps times, keeping the bare powers step^k v of every step."""
    collected = []
    scales = vector.new_tensor([1.0 / factorial(k) for k in range(plan.n_terms + 1)])
    for _ in range(plan.n_steps):
        powers = [vector]
        for _ in range(plan.n_terms):
            powers.append(apply_matrix(step, powers[-1]))
        collected.append(torch.cat(powers, -1))
        vector = (collected[-1] @ scales).unsqueeze(-1)
    return vector, collected


@lru_cache(maxsize=256)
def _integral_of_powers(n_terms: int, dtype: torch.dtype) -> Tensor:
    """Tabulate 1 / (j+k+1)!, the weight of (A^T)^j r (A^k z)^T in the gradient."""
    orders = range(n_terms + 1)
    table = [[1.0 / factorial(j + k + 1) for k in orders] for j in orders]
    return torch.tensor(table, dtype=dtype)
