"""The small l1 problem inside a Gauss-Newton step, for many pairs at once."""

import torch
from jaxtyping import Float
from torch import Tensor

from transop.operators.devices import where_supported

# Coordinates a single jump may drop, one after the other, before the next sweep.
_MAX_DROPS = 6


def soft_threshold(
    values: Float[Tensor, "*shape"], threshold: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """Shrink values towards zero by a threshold, and to zero below it.

    [SOFTTHRESHOLD]  sign(c) max(|c| - lambda, 0)
    """
    return values - torch.clamp(values, -threshold, threshold)


def minimise_lasso(
    curvature: Float[Tensor, "b m m"],
    pull: Float[Tensor, "b m"],
    weights: Float[Tensor, "b m"],
    start: Float[Tensor, "b m"],
    *,
    max_rounds: int = 12,
    tolerance: float = 1e-6,
) -> Float[Tensor, "b m"]:
    """Minimise 1/2 x^T H x - p^T x + sum_m w_m |x_m| per pair.

    Every round is a sweep of coordinate descent, which finds out which coordinates are zero and
    which sign the others have, and a jump to the exact minimum with those signs. Neither can
    raise the cost. ``start`` is where x begins; a good guess saves rounds. The last round is the
    first that moves no pair by more than the share ``tolerance`` of how far all rounds have moved
    it, squared and measured by H.
    """
    # Pairs go last, so that one coordinate of all pairs is one contiguous row.
    rows = curvature.permute(1, 2, 0).contiguous()
    limits = weights.mT.contiguous()
    x = start
    moved = torch.zeros_like(pull[:, :1])
    for _ in range(max_rounds):
        slack = pull - _multiply(curvature, x)
        swept = _sweep(rows, limits, x, slack)
        new = _jump(curvature, pull, weights, swept)
        move = ((new - x) * _multiply(curvature, new - x)).sum(-1, keepdim=True)
        x, moved = new, moved + move
        if not bool((move > tolerance * moved).any()):
            break
    return x


def _multiply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _sweep(rows: Tensor, limits: Tensor, start: Tensor, slack: Tensor) -> Tensor:
    """Minimise exactly over one coordinate after the other, once."""
    # clone() and not contiguous(): for a single pair the latter would be the caller's own memory.
    x = start.mT.clone(memory_format=torch.contiguous_format)
    slack = slack.mT.clone(memory_format=torch.contiguous_format)
    for i in range(x.shape[0]):
        stiffness = rows[i, i]
        aim = torch.addcmul(slack[i], stiffness, x[i])
        step = soft_threshold(aim, limits[i]) / stiffness - x[i]
        x[i] += step
        slack.addcmul_(rows[i], step, value=-1)
    return x.mT


def _jump(curvature: Tensor, pull: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """Move to the minimum over the non-zero coordinates, dropping those that become zero."""
    for _ in range(_MAX_DROPS):
        aim = _minimum_with_signs(curvature, pull, weights, x)
        step = aim - x
        # A coordinate that changes sign meets zero at this share of the step.
        shares = torch.where(x * aim < 0, -x / step, torch.ones_like(x))
        share = shares.amin(-1, keepdim=True) if x.shape[-1] else torch.ones_like(pull)
        landed = torch.where((shares == share) & (shares < 1), 0.0, x + share * step)
        lower = _cost_change(curvature, pull, weights, x, landed) < 0
        x = torch.where(lower, landed, x)
        if not bool((lower & (share < 1)).any()):
            break
    return x


def _minimum_with_signs(curvature: Tensor, pull: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """Solve for the non-zero coordinates as if their signs were sure to stay as they are."""
    used = (x != 0).to(x.dtype)
    system = curvature * used.unsqueeze(-1) * used.unsqueeze(-2)
    system.diagonal(dim1=-2, dim2=-1).add_(1 - used)
    factor, failed = torch.linalg.cholesky_ex(where_supported(system))
    right = where_supported((pull - weights * x.sign()) * used)
    minimum = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
    usable = torch.isfinite(minimum).all(-1, keepdim=True) & (failed == 0).unsqueeze(-1)
    return torch.where(usable.to(x.device), minimum.to(x.device), x)


def _cost_change(
    curvature: Tensor, pull: Tensor, weights: Tensor, x: Tensor, new: Tensor
) -> Tensor:
    """Compare two points by difference, so that equal parts cannot drown what differs."""
    step = new - x
    smooth = (step * (_multiply(curvature, x + step / 2) - pull)).sum(-1, keepdim=True)
    return smooth + (weights * (new.abs() - x.abs())).sum(-1, keepdim=True)
