"""How long random moves are, and which scales give a wanted length."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from transop.operators import laplace_from_uniform, transport

_CALIBRATED_ON = 2_000  # points on which the factor for a length is found
_CORRECTIONS, _LARGEST_CORRECTION = 15, 8.0  # of the factor, one after another
_CLOSE_ENOUGH = 0.005


@torch.inference_mode()
def factor_for_length(
    operators: Float[Tensor, "m d d"],
    latents: Float[Tensor, "n d"],
    scales: Float[Tensor, "n m"],
    length: float,
    *,
    uniform: Float[Tensor, "n m"] | None = None,
    generator: torch.Generator | None = None,
) -> float:
    """Find the factor on scales with which moves have a mean relative length |dz| / |z|.

    Args:
        operators: the dictionary.
        latents: points to move, in scaled units.
        scales: Laplace scale of every coefficient at every point.
        length: the length wanted.
        uniform: draws from [0, 1) for every point and operator; drawn if not given.
        generator: source of randomness.

    Returns:
        The factor; where nothing moves, a large one.
    """
    if uniform is None:
        uniform = draw_uniform((len(latents), len(operators)), latents, generator)
    some = slice(0, _CALIBRATED_ON)
    z, unit = latents[some], laplace_from_uniform(scales[some], uniform[some])
    factor = 1.0
    for _ in range(_CORRECTIONS):
        moved = float(relative_lengths(z, transport(operators, unit * factor, z)).mean())
        if abs(moved - length) <= _CLOSE_ENOUGH * length:
            break
        # Short moves grow in proportion to the factor, long ones faster or beyond all bounds.
        ratio = length / moved if moved > 0 else _LARGEST_CORRECTION
        ratio = ratio if math.isfinite(ratio) else 1 / _LARGEST_CORRECTION
        factor *= min(max(ratio, 1 / _LARGEST_CORRECTION), _LARGEST_CORRECTION)
    return factor


def spread_covered(latents: Float[Tensor, "n d"], moved: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Say how much of the data's spread random moves cover, from 0 to 1.

    [COVERAGE]  mean over principal directions v of min(1, E|v.(z' - z)| / E|v.(z - mean)|)

    Moves along one direction only, however far, cover one d-th at most.

    Args:
        latents: the points before the move; their principal directions are used.
        moved: the points after it.
    """
    centred = (latents - latents.mean(0)).double()
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    spread = (centred @ directions.T).abs().mean(0)
    moves = ((moved - latents).double() @ directions.T).abs().mean(0)
    kept = spread > 1e-6 * spread.max()  # a direction in which the data has no extent says nothing
    share: Tensor = (moves[kept] / spread[kept]).clamp_max(1).mean()
    return share


def half_way_scale(operators: Float[Tensor, "m d d"], latents: Float[Tensor, "n d"]) -> float:
    """Find the fixed scale whose moves go half the way to the nearest other image.

    A point moved less than that is still nearer to where it came from than to any other image.
    This is how far it is safe to go when nothing tells identities apart.

    Args:
        operators: the dictionary.
        latents: points in scaled units; their distances are measured on a sample.
    """
    sample = _sample(latents)
    distance = torch.cat([_nearest(chunk, sample) for chunk in torch.split(sample, 500)])
    length = float((distance / sample.norm(dim=1).clamp_min(1e-12)).mean()) / 2
    return _fixed_scale(operators, sample, length)


def far_scale(operators: Float[Tensor, "m d d"], latents: Float[Tensor, "n d"]) -> float:
    """Find the fixed scale whose moves are as long as the distance between two random images.

    Such a prior asks a coefficient encoder to reach everything, and leaves it to identity to
    hold it back.

    Args:
        operators: the dictionary.
        latents: points in scaled units.
    """
    return _fixed_scale(operators, _sample(latents), far_length(latents))


def far_length(latents: Float[Tensor, "n d"]) -> float:
    """Give the mean distance between two random points, as a share of the first one's length."""
    sample = _sample(latents)
    return float(relative_lengths(sample, sample.roll(1, 0)).mean())


def relative_lengths(start: Float[Tensor, "n d"], end: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Give |end - start| / |start| of every point."""
    lengths: Tensor = (end - start).norm(dim=1) / start.norm(dim=1).clamp_min(1e-12)
    return lengths


def draw_uniform(
    shape: tuple[int, int], like: Tensor, generator: torch.Generator | None
) -> Float[Tensor, "n m"]:
    """Draw from [0, 1) with the type and device of another tensor."""
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    return torch.rand(shape, generator=generator, dtype=like.dtype).to(like.device)


def _fixed_scale(operators: Tensor, latents: Tensor, length: float) -> float:
    ones = latents.new_ones(len(latents), len(operators))
    return factor_for_length(operators, latents, ones, max(length, 1e-6))


def _sample(latents: Tensor) -> Tensor:
    order = torch.randperm(len(latents), generator=torch.Generator().manual_seed(0))
    return latents[order[:_CALIBRATED_ON].to(latents.device)].detach()


def _nearest(points: Tensor, others: Tensor) -> Float[Tensor, " n"]:
    """Give the distance to the nearest of the others that is not the point itself."""
    distance = torch.cdist(points, others)
    return distance.topk(min(2, len(others)), largest=False).values[:, -1]
