"""How often a random move keeps identity, against how far it goes.

A move of any source of scales can be made longer or shorter by one factor on its scales. Sources
are therefore compared at the same mean length of move only, and one fixed scale of that length
always stands beside them: a source that keeps more identity by moving less has shown nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.evaluation.reconstruction import CHUNK
from transop.operators import laplace_from_uniform, transport
from transop.operators.devices import where_supported

FIXED = "one fixed scale"
LENGTHS = (0.1, 0.2, 0.3, 0.4, 0.5)

Classify = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class KeptIdentity:
    """What random moves did to a set of points."""

    kept: float  # share of moves (of attributes, if it tells those) with the same answer
    relative_move: float  # mean of |dz| / |z|
    half_width: float = 0.0  # of the 95 % interval of ``kept``
    coverage: float = 0.0  # see `spread_covered`


@dataclass(frozen=True)
class KeptCurve:
    """One source of scales at several lengths of move."""

    source: str  # where the scales come from, in words
    length: list[float]  # mean of |dz| / |z|, as measured
    factor: list[float]  # on the source's scales, to get there
    kept: list[float]  # share of moves that keep identity
    half_width: list[float]  # of its 95 % interval
    coverage: list[float]  # share of the data's spread that the moves cover

    def as_dict(self) -> dict[str, Any]:
        """Give plain values, as they are stored with a run."""
        return asdict(self)


@torch.inference_mode()
def measure_kept_curves(
    operators: Float[Tensor, "m d d"],
    latents: Float[Tensor, "n d"],
    sources: Mapping[str, Float[Tensor, "n m"]],
    classify_latents: Classify,
    *,
    lengths: Sequence[float] = LENGTHS,
    names: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> list[KeptCurve]:
    """Measure kept identity of every source of scales at the same lengths of move.

    All sources use the same random draws. The last curve is one fixed scale for all operators
    and points, made as long.

    Args:
        operators: the dictionary.
        latents: points to move, in scaled units.
        sources: the Laplace scales each source gives at every point.
        classify_latents: logits of a latent point, such as classifier after decoder.
        lengths: mean relative lengths |dz| / |z| to measure at.
        names: what every point must still be called; the classifier's opinion of the unmoved
            point if not given.
        generator: source of randomness.
    """
    shape = (len(latents), len(operators))
    uniform = draw_uniform(shape, latents, generator)
    everything = {**sources, FIXED: latents.new_ones(shape)}
    truth = names if names is not None else _name_all(classify_latents, latents)
    curves = []
    for source, scales in everything.items():
        curve = KeptCurve(source, [], [], [], [], [])
        for length in lengths:
            factor = factor_for_length(operators, latents, scales, length, uniform=uniform)
            found = _measure(operators, latents, scales * factor, classify_latents, truth, uniform)
            curve.length.append(found.relative_move)
            curve.factor.append(factor)
            curve.kept.append(found.kept)
            curve.half_width.append(found.half_width)
            curve.coverage.append(found.coverage)
        curves.append(curve)
    return curves


@torch.inference_mode()
def measure_kept_identity(
    operators: Float[Tensor, "m d d"],
    latents: Float[Tensor, "n d"],
    scales: Float[Tensor, "n m"],
    classify_latents: Classify,
    *,
    generator: torch.Generator | None = None,
) -> KeptIdentity:
    """Move every point by coefficients drawn with the given scales and ask the classifier again.

    Compare two sources of scales with `measure_kept_curves` instead, which has the same arguments:
    at equal length.
    """
    uniform = draw_uniform((len(latents), len(operators)), latents, generator)
    truth = _name_all(classify_latents, latents)
    return _measure(operators, latents, scales, classify_latents, truth, uniform)


def _measure(
    operators: Tensor,
    latents: Tensor,
    scales: Tensor,
    classify_latents: Classify,
    truth: Tensor,
    uniform: Tensor,
) -> KeptIdentity:
    there = transport(operators, laplace_from_uniform(scales, uniform), latents)
    there = torch.where(there.isfinite().all(1, keepdim=True), there, latents)
    same = (_name_all(classify_latents, there) == truth).float().reshape(len(there), -1).mean(1)
    kept = float(same.mean())
    return KeptIdentity(
        kept=kept,
        relative_move=float(relative_lengths(latents, there).mean()),
        half_width=1.96 * (kept * (1 - kept) / len(same)) ** 0.5,
        coverage=float(spread_covered(latents, there)),
    )


def _name_all(classify_latents: Classify, latents: Tensor) -> Tensor:
    return torch.cat([classify_latents(z).argmax(-1) for z in torch.split(latents, CHUNK)])


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
) -> float:
    """Find the factor on scales with which moves have a mean relative length |dz| / |z|.

    Where nothing moves, it is a large one. ``uniform`` holds draws from [0, 1) for every point and
    operator.
    """
    if uniform is None:
        uniform = draw_uniform((len(latents), len(operators)), latents)
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

    The directions are those of the points before the move. Moves along one direction only,
    however far, cover one d-th at most.
    """
    latents, moved = where_supported(latents), where_supported(moved)
    centred = (latents - latents.mean(0)).double()
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    spread = (centred @ directions.T).abs().mean(0)
    moves = ((moved - latents).double() @ directions.T).abs().mean(0)
    kept = spread > 1e-6 * spread.max()  # a direction in which the data has no extent says nothing
    shares: Tensor = (moves[kept] / spread[kept]).clamp_max(1)
    return shares.mean() if len(shares) else shares.sum()  # a single point has no spread


def half_way_scale(operators: Float[Tensor, "m d d"], latents: Float[Tensor, "n d"]) -> float:
    """Find the fixed scale whose moves go half the way to the nearest other image.

    A point moved less than that is still nearer to where it came from than to any other image.
    This is how far it is safe to go when nothing tells identities apart.
    """
    sample = _sample(latents)
    two = min(2, len(sample))  # the nearest of all is the point itself
    chunks = [torch.cdist(chunk, sample) for chunk in torch.split(sample, 500)]
    distance = torch.cat([d.topk(two, largest=False).values[:, -1] for d in chunks])
    length = float((distance / sample.norm(dim=1).clamp_min(1e-12)).mean()) / 2
    return _fixed_scale(operators, sample, length)


def far_scale(operators: Float[Tensor, "m d d"], latents: Float[Tensor, "n d"]) -> float:
    """Find the fixed scale whose moves are as long as the distance between two random images.

    Such a prior asks a coefficient encoder to reach everything, and leaves it to identity to
    hold it back.
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
    shape: tuple[int, int], like: Tensor, generator: torch.Generator | None = None
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
