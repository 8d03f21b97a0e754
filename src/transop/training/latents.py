"""Encode a split once, and find the scale that brings its latents to about [-1, 1]."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from transop.data import ImageDataset
from transop.networks import Autoencoder
from transop.progress import Progress, silent

_CHUNK = 500
_COVERED = 0.995  # share of latent entries that the automatic scale brings into [-1, 1]


@torch.no_grad()
def encode_split(
    network: Autoencoder,
    dataset: ImageDataset,
    split: str = "train",
    *,
    progress: Progress = silent,
) -> Float[Tensor, "n d"]:
    """Encode the images of a split, in raw latent units, in the order of the split."""
    rows = dataset.splits[split]
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    pieces = []
    starts = range(0, len(rows), _CHUNK)
    for start in progress(starts, f"encoding {split} images", len(starts)):
        images = dataset.batch(rows[start : start + _CHUNK], device=device)
        pieces.append(network.encode(images.contiguous(memory_format=torch.channels_last)))
    network.train(was_training)
    return torch.cat(pieces).float()


def find_latent_scale(latents: Float[Tensor, "n d"]) -> float:
    """Find the divisor after which almost all latent entries lie in [-1, 1].

    Differs from the paper, which looks at the latents and picks a round number by hand.
    """
    entries = latents.abs().flatten().sort().values
    scale = float(entries[int(_COVERED * (len(entries) - 1))])
    return scale if scale > 0 else 1.0
