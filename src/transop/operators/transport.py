"""Move points along the flow of the operators: to the end, and along the way."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError
from transop.inputs import (
    check_choice,
    check_dictionary,
    check_finite,
    check_whole,
)
from transop.operators.blocks import block_slices
from transop.operators.devices import where_supported
from transop.operators.series import (
    SeriesPlan,
    apply_series,
    build_generator,
    largest_norm,
    plan_series,
)

Method = Literal["action", "dense"]

# Beyond this norm squaring (dense) needs fewer products than stepping (action).
_LONGEST_ACTION = 64.0

# Terms and steps a caller may fix; more would only take time.
_MOST_TERMS = 10_000

# Entries of generators held at once when no gradient is recorded (32 MiB in float32).
_CHUNK_ENTRIES = 2**23


def transport(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "*#batch m"],
    points: Float[Tensor, "*#batch d"],
    *,
    method: Method = "action",
    n_terms: int | None = None,
    n_steps: int = 1,
) -> Float[Tensor, "*batch d"]:
    """Carry latent points along the flow of a weighted mix of operators.

    [TRANSPORT]  z1 = expm(sum_m c_m Psi_m) z0

    Zero coefficients leave a point where it is; negated ones undo the move. Leading axes
    broadcast, so one row of coefficients can move many points. Differentiable in all three.

    Args:
        operators: the dictionary Psi, one generator per slice.
        coefficients: c, one row per point.
        points: z0, in scaled latent units.
        method: ``"action"`` applies the exponential's series to the vector, with as many terms
            and steps as round-off asks for; ``"dense"`` forms the exponential itself.
        n_terms: fixes the terms of the series and skips every check on values, so that the
            work does not depend on the data (for tracing, compiling and exporting). The error
            is then at most (norm / n_steps)^(n_terms + 1) / (n_terms + 1)! per step.
        n_steps: steps the fixed series is cut into; used with ``n_terms`` only.

    Returns:
        z1, in the same units as ``points``.

    Raises:
        TensorError: a shape does not fit or an entry is not finite.
    """
    check_dictionary(operators, coefficients, points=points)
    n_steps = check_whole("n_steps", n_steps, least=1, most=_MOST_TERMS)
    check_choice("method", method, tuple(TRANSPORT_METHODS))
    if n_terms is not None:
        plan = SeriesPlan(n_steps, check_whole("n_terms", n_terms, least=1, most=_MOST_TERMS))
        return _move(build_generator(operators, coefficients), points, plan)
    check_finite(operators=operators, coefficients=coefficients, points=points)
    if len(blocks := block_slices(operators.detach())) > 1:
        parts = ((operators[:, i, i], coefficients, points[..., i]) for i in blocks)
        return torch.cat([transport(*part, method=method) for part in parts], -1)
    evaluate = TRANSPORT_METHODS[method]
    if _records(operators, coefficients, points):
        return evaluate(operators, coefficients, points)
    return _in_chunks(evaluate, operators, coefficients, points)


def transport_path(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "*batch m"],
    points: Float[Tensor, "*batch d"],
    times: Float[Tensor, " t"],
) -> Float[Tensor, "*batch t d"]:
    """Carry latent points along the flow and keep where they are at every given time.

    [PATH]  z(t) = expm(t sum_m c_m Psi_m) z0

    Time 0 is the point itself, 1 the end of the inferred path, beyond 1 extrapolates. All times
    share one generator per point; they may be negative and in any order.

    Args:
        operators: the dictionary Psi.
        coefficients: c, one row per point.
        points: z0, in scaled latent units.
        times: t, in units of the whole path.
    """
    check_dictionary(operators, coefficients, points=points)
    check_finite(operators=operators, coefficients=coefficients, points=points, times=times)
    if times.ndim != 1:
        raise TensorError(f"times has shape {tuple(times.shape)}; pass a list of them, shape (t,)")
    times = times.to(points)
    if len(blocks := block_slices(operators.detach())) > 1:
        parts = ((operators[:, i, i], coefficients, points[..., i]) for i in blocks)
        return torch.cat([transport_path(*part, times) for part in parts], -1)
    size = max(1, _CHUNK_ENTRIES // max(1, operators.shape[-1] ** 2))
    tables = coefficients.ndim == points.ndim == 2 and len(points) == len(coefficients)
    if tables and len(points) > size and not _records(operators, coefficients, points, times):
        pieces = zip(torch.split(coefficients, size), torch.split(points, size), strict=True)
        return torch.cat([transport_path(operators, *piece, times) for piece in pieces])
    generator = build_generator(operators, coefficients)
    farthest = float(times.detach().abs().amax()) if times.numel() else 0.0
    norm = largest_norm(generator) * farthest
    if norm > _LONGEST_ACTION:
        moved = _exponentiate(times[:, None, None] * generator.unsqueeze(-3))
        return torch.matmul(moved, points[..., None, :, None]).squeeze(-1)
    plan = plan_series(norm, points.dtype)
    columns = points.unsqueeze(-1).expand(*points.shape, times.numel())
    return apply_series(generator, columns, plan, times).mT


def _records(*tensors: Tensor) -> bool:
    """Say whether a graph is recorded for any of the tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _transport_by_action(operators: Tensor, coefficients: Tensor, points: Tensor) -> Tensor:
    generator = build_generator(operators, coefficients)
    norm = largest_norm(generator)
    if norm > _LONGEST_ACTION:
        return _transport_densely(operators, coefficients, points)
    return _move(generator, points, plan_series(norm, points.dtype))


def _transport_densely(operators: Tensor, coefficients: Tensor, points: Tensor) -> Tensor:
    exponential = _exponentiate(build_generator(operators, coefficients))
    if exponential.ndim == 2:
        return points @ exponential.mT
    return (exponential @ points.unsqueeze(-1)).squeeze(-1)


def _exponentiate(generator: Tensor) -> Tensor:
    exponential: Tensor = torch.linalg.matrix_exp(where_supported(generator))
    return exponential.to(generator.device)


def _move(generator: Tensor, points: Tensor, plan: SeriesPlan) -> Tensor:
    if generator.ndim == 2 and points.ndim > 1:
        # One generator for all points: they become the columns of one matrix product.
        columns = points.reshape(-1, points.shape[-1]).mT
        return apply_series(generator, columns, plan).mT.reshape(points.shape)
    return apply_series(generator, points.unsqueeze(-1), plan).squeeze(-1)


def _in_chunks(
    evaluate: Callable[[Tensor, Tensor, Tensor], Tensor],
    operators: Tensor,
    coefficients: Tensor,
    points: Tensor,
) -> Tensor:
    d = points.shape[-1]
    if coefficients.ndim == 1 or coefficients[..., 0:1].numel() * d * d <= _CHUNK_ENTRIES:
        return evaluate(operators, coefficients, points)
    batch = (coefficients[..., :1] + points[..., :1]).shape[:-1]
    rows = coefficients.expand(*batch, -1).reshape(-1, coefficients.shape[-1])
    starts = points.expand(*batch, -1).reshape(-1, d)
    size = max(1, _CHUNK_ENTRIES // (d * d))
    pieces = [
        evaluate(operators, rows[i : i + size], starts[i : i + size])
        for i in range(0, starts.shape[0], size)
    ]
    return torch.cat(pieces).reshape(*batch, d)


TRANSPORT_METHODS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "action": _transport_by_action,
    "dense": _transport_densely,
}
