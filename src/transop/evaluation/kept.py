"""How often a random move keeps identity, against how far it goes.

A move of any source of scales can be made longer or shorter by one factor on its scales. Sources
are therefore compared at the same mean length of move only, and one fixed scale of that length
always stands beside them: a source that keeps more identity by moving less has shown nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.evaluation.lengths import (
    draw_uniform,
    factor_for_length,
    relative_lengths,
    spread_covered,
)
from transop.evaluation.reconstruction import CHUNK
from transop.operators import laplace_from_uniform, transport

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
    """One source of scales at several lengths of move.

    Attributes:
        source: where the scales come from, in words.
        length: mean of |dz| / |z|, as measured.
        factor: on the source's scales, to get there.
        kept: share of moves that keep identity.
        half_width: of its 95 % interval.
        coverage: share of the data's spread that the moves cover.
    """

    source: str
    length: list[float]
    factor: list[float]
    kept: list[float]
    half_width: list[float]
    coverage: list[float]

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
        rows: list[tuple[float, KeptIdentity]] = []
        for length in lengths:
            factor = factor_for_length(operators, latents, scales, length, uniform=uniform)
            found = _measure(operators, latents, scales * factor, classify_latents, truth, uniform)
            rows.append((factor, found))
        curves.append(
            KeptCurve(
                source=source,
                length=[found.relative_move for _, found in rows],
                factor=[factor for factor, _ in rows],
                kept=[found.kept for _, found in rows],
                half_width=[found.half_width for _, found in rows],
                coverage=[found.coverage for _, found in rows],
            )
        )
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

    Compare two sources of scales with `measure_kept_curves` instead: at equal length.

    Args:
        operators: the dictionary.
        latents: points to move, in scaled units.
        scales: Laplace scale of every coefficient at every point.
        classify_latents: logits of a latent point, such as classifier after decoder.
        generator: source of randomness.
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
    coefficients = laplace_from_uniform(scales, uniform)
    there = transport(operators, coefficients, latents)
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
    parts = [classify_latents(z).argmax(-1) for z in torch.split(latents, CHUNK)]
    return torch.cat(parts)
