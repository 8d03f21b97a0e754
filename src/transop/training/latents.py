"""Encode a split once, scale its latents, and pair its images as the settings ask."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.config import PairSettings
from transop.data import ImageDataset
from transop.extras import require
from transop.networks import Autoencoder
from transop.pairs import PairSource, build_pairs
from transop.pairs.features import collect_rows
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks
from transop.training.session import Session

_CHUNK = 500
_COVERED = 0.995  # share of latent entries that the automatic scale brings into [-1, 1]


@torch.no_grad()
def encode_split(
    network: Autoencoder,
    dataset: ImageDataset,
    *,
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> Float[Tensor, "n d"]:
    """Encode the training images in evaluation mode, in raw latent units, in the split's order.

    The processes of ``ranks`` share the work, and all of them get all latents.
    """
    rows = dataset.splits["train"]
    device = next(chain(network.parameters(), network.buffers())).device
    was_training = network.training
    network.eval()

    def encode(start: int) -> Tensor:
        images = dataset.batch(rows[start : start + _CHUNK], device=device)
        return network.encode(images.contiguous(memory_format=torch.channels_last)).float()

    starts = range(0, len(rows), _CHUNK)
    chunks = progress(ranks.in_turns(starts, encode), "encoding train images", len(starts))
    latents = collect_rows(chunks, len(rows))
    network.train(was_training)
    return latents


def encode_in(
    session: Session, network: Autoencoder, dataset: ImageDataset
) -> Float[Tensor, "n d"]:
    """Encode the training images by all processes of a run, in raw latent units."""
    return encode_split(network, dataset, ranks=session.ranks, progress=session.progress)


def find_latent_scale(latents: Float[Tensor, "n d"]) -> float:
    """Find the divisor after which almost all latent entries lie in [-1, 1].

    Differs from the paper, which looks at the latents and picks a round number by hand.
    """
    entries = latents.abs().flatten().cpu().numpy()
    rank = int(_COVERED * (len(entries) - 1))
    entries.partition(rank)  # in place: torch's kthvalue takes five times the memory
    scale = float(entries[rank])
    return scale if scale > 0 else 1.0


def check_backbone(settings: PairSettings) -> None:
    """Refuse perceptual pairs whose network is not installed, before anything is trained."""
    packaged = settings.backbone != "resnet18" and settings.weights is None
    if settings.strategy.startswith("perceptual") and packaged:
        require(
            "perceptual",
            f"pairs.strategy = '{settings.strategy}'",
            "or choose pairs.backbone = 'resnet18', which is downloaded, or pairs.strategy = "
            "'pixel'",
        )


def make_pairs(session: Session, network: Autoencoder, dataset: ImageDataset) -> PairSource:
    """Build the pairs of a run."""
    shared: Any = {"device": session.device, "ranks": session.ranks, "progress": session.progress}
    return pairs_by_settings(session.settings.pairs, network, dataset, **shared)


def pairs_by_settings(
    settings: PairSettings,
    network: Autoencoder,
    dataset: ImageDataset,
    *,
    device: torch.device | str = "cpu",
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> PairSource:
    """Build pairs of training images; the network is asked for latents if the strategy needs them.

    The device is where features and distances are computed.
    """
    latents = None
    if settings.strategy == "latent":
        latents = encode_split(network, dataset, ranks=ranks, progress=progress).cpu()
    perceptual = settings.strategy.startswith("perceptual")
    return build_pairs(
        dataset,
        settings.strategy,
        n_neighbours=settings.n_neighbours,
        features=settings.backbone if perceptual else None,
        weights=settings.weights if perceptual else None,
        input_size=settings.input_size if perceptual else None,
        latents=latents,
        given=settings.given if settings.strategy == "given" else None,
        device=device,
        ranks=ranks,
        progress=progress,
    )
