"""What an operator's eigenvalues say about its paths: stable, closed, or running away."""

import math

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

from transop.inputs import (
    check_dictionary,
    check_finite,
    check_number,
    check_operators,
    check_precise,
    check_whole,
)
from transop.operators.blocks import block_slices
from transop.operators.devices import where_supported
from transop.operators.series import build_generator


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


@torch.no_grad()
def closing_period(
    operators: Float[Tensor, "m d d"], *, tolerance: float = 0.05, max_turns: int = 16
) -> Float[Tensor, " m"]:
    """Find the coefficient at which every operator brings all points back to where they began.

    A path closes at T if |expm(T Psi) - I| in the spectral norm is at most ``tolerance``, the
    largest distance by which a point of unit length misses its start. That needs eigenvalues
    without real parts and angular speeds in whole-number ratios.

    Args:
        operators: the dictionary Psi.
        tolerance: largest accepted miss, relative to a point's length.
        max_turns: how often any of the operator's rotations may turn before the path closes.

    Returns:
        The smallest period per operator; infinity where paths do not close, 0 where the operator
        moves nothing.
    """
    check_operators(operators)
    check_precise(operators=operators)
    tolerance = check_number("tolerance", tolerance, "a positive number", open=True)
    max_turns = check_whole("max_turns", max_turns, least=1, most=10_000)
    matrices = where_supported(operators.detach())
    periods = [
        _closing_period_of_one(operator, values, tolerance, max_turns)
        for operator, values in zip(matrices, eigenvalues(matrices), strict=True)
    ]
    return operators.new_tensor(periods)


@torch.no_grad()
def will_overflow(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "*batch m"],
    points: Float[Tensor, "*batch d"],
    *,
    until: float = 1.0,
    limit: float | None = None,
) -> Bool[Tensor, "*batch"]:
    """Predict which paths grow beyond a limit, without walking them.

    [OVERFLOW]  log |z(T)| <= log |z0| + T mu(A),  mu(A) = max eigenvalue of (A + A^T) / 2

    A path within this bound can never exceed the limit. One beyond it is judged by its parts
    along the eigenvectors, each of which grows as exp(T Re lambda).

    Args:
        operators: the dictionary Psi.
        coefficients: c, one row per point.
        points: z0, in scaled latent units.
        until: T, where the path ends, in units of the whole path; may be negative.
        limit: length regarded as too far; the largest representable number if left out.
    """
    until = check_number("until", until, "a finite number; 1 is the whole path", low=-math.inf)
    check_dictionary(operators, coefficients, points=points)
    check_finite(operators=operators, coefficients=coefficients, points=points)
    if limit is not None:
        limit = check_number("limit", limit, "a positive number", open=True)
    # In double precision the prediction itself cannot overflow for any float32 input.
    precise = [where_supported(tensor).double() for tensor in (operators, coefficients, points)]
    generator = build_generator(precise[0], precise[1] * until)
    ceiling = math.log(torch.finfo(points.dtype).max if limit is None else limit)
    log_length: Tensor = torch.linalg.vector_norm(precise[2], dim=-1).log()
    symmetric = (generator + generator.mT) / 2
    fastest: Tensor = torch.linalg.eigvalsh(symmetric)[..., -1].clamp_min(0)
    may_exceed = log_length + fastest > ceiling
    exceeds = may_exceed & (_log_end_length(generator, precise[2]) > ceiling)
    return exceeds.to(points.device)


def _log_end_length(generator: Tensor, points: Tensor) -> Tensor:
    """Estimate log |expm(A) z| from the largest part of z along an eigenvector of A."""
    values, vectors = torch.linalg.eig(generator)
    parts: Tensor = torch.linalg.lstsq(vectors, points.unsqueeze(-1).to(vectors)).solution.squeeze(
        -1
    )
    # A part of round-off size is no part at all: it would grow from nothing.
    floor = torch.finfo(points.dtype).eps * parts.abs().amax(-1, keepdim=True)
    parts = torch.where(parts.abs() > 16 * floor, parts, torch.zeros_like(parts))
    return torch.amax(parts.abs().log() + values.real, -1)


def _closing_period_of_one(
    operator: Tensor, values: Tensor, tolerance: float, max_turns: int
) -> float:
    speeds = values.imag.abs()
    norm = float(torch.linalg.matrix_norm(operator, 2))
    if norm == 0.0:
        return 0.0
    # Slower than this a rotation is round-off, or turns too little to be noticed.
    speeds = speeds[speeds > norm * torch.finfo(operator.dtype).eps * 64]
    if speeds.numel() == 0:
        return math.inf
    turns = torch.arange(1, max_turns + 1, dtype=speeds.dtype, device=speeds.device)
    candidates = (2 * math.pi * turns / speeds[:, None]).flatten().sort().values
    misses = (candidates[:, None] * values).exp().sub(1).abs().amax(-1)
    identity = torch.eye(operator.shape[-1], dtype=operator.dtype, device=operator.device)
    for candidate in candidates[misses <= tolerance].tolist():
        # Eigenvalues alone do not see shear, so the verdict is the exponential itself.
        end = torch.linalg.matrix_exp(candidate * operator)
        if float(torch.linalg.matrix_norm(end - identity, 2)) <= tolerance:
            return float(candidate)
    return math.inf
