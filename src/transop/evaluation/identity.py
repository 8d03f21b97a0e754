"""How often a sampled move keeps the classifier's opinion, and how far it goes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transop.evaluation.reconstruction import CHUNK
from transop.operators import sample_moves


@dataclass(frozen=True)
class KeptIdentity:
    """What random moves did to a set of points."""

    kept: float  # share of moves (of attributes, if it tells those) with the same answer
    relative_move: float  # mean of |dz| / |z|


@torch.inference_mode()
def measure_kept_identity(
    operators: Float[Tensor, "m d d"],
    latents: Float[Tensor, "n d"],
    scales: Float[Tensor, "n m"],
    classify_latents: Callable[[Tensor], Tensor],
    *,
    generator: torch.Generator | None = None,
) -> KeptIdentity:
    """Move every point by coefficients drawn with the given scales and ask the classifier again.

    Args:
        operators: the dictionary.
        latents: points to move, in scaled units.
        scales: Laplace scale of every coefficient at every point.
        classify_latents: logits of a latent point, e.g. classifier after decoder.
        generator: source of randomness.
    """
    kept = moved = 0.0
    for z, scale in zip(torch.split(latents, CHUNK), torch.split(scales, CHUNK), strict=True):
        there, _ = sample_moves(operators, z, scale, generator=generator)
        same = classify_latents(there).argmax(-1) == classify_latents(z).argmax(-1)
        kept += same.float().reshape(len(z), -1).mean(1).sum().item()
        moved += ((there - z).norm(dim=1) / z.norm(dim=1)).sum().item()
    return KeptIdentity(kept=kept / len(latents), relative_move=moved / len(latents))
