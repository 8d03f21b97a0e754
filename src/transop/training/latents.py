"""Encode a split once, and find the scale that brings its latents to about [-1, 1]."""

from __future__ import annotations

from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor

from transop.data import ImageDataset
from transop.networks import Autoencoder
from transop.pairs.features import collect_rows
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

_CHUNK = 500
_COVERED = 0.995  # share of latent entries that the automatic scale brings into [-1, 1]


@torch.no_grad()
def encode_split(
    network: Autoencoder,
    dataset: ImageDataset,
    split: str = "train",
    *,
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> Float[Tensor, "n d"]:
    """Encode the images of a split, in raw latent units, in the order of the split.

    Args:
        network: encodes, in evaluation mode.
        dataset: the images.
        split: which of them.
        ranks: the processes that share the work; all of them get all latents.
        progress: announces the chunks.
    """
    rows = dataset.splits[split]
    device = next(chain(network.parameters(), network.buffers())).device
    was_training = network.training
    network.eval()

    def encode(start: int) -> Tensor:
        images = dataset.batch(rows[start : start + _CHUNK], device=device)
        return network.encode(images.contiguous(memory_format=torch.channels_last)).float()

    starts = range(0, len(rows), _CHUNK)
    chunks = progress(ranks.in_turns(starts, encode), f"encoding {split} images", len(starts))
    latents = collect_rows(chunks, len(rows))
    network.train(was_training)
    return latents


def find_latent_scale(latents: Float[Tensor, "n d"]) -> float:
    """Find the divisor after which almost all latent entries lie in [-1, 1].

    Differs from the paper, which looks at the latents and picks a round number by hand.
    """
    entries = latents.abs().flatten().cpu().numpy()
    rank = int(_COVERED * (len(entries) - 1))
    entries.partition(rank)  # in place: torch's kthvalue takes five times the memory
    scale = float(entries[rank])
    return scale if scale > 0 else 1.0
