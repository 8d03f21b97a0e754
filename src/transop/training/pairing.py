"""Pair the training images of a run as its settings ask."""

from __future__ import annotations

import torch

from transop.config import PairSettings
from transop.data import ImageDataset
from transop.extras import require
from transop.networks import Autoencoder
from transop.pairs import PairSource, build_pairs
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks
from transop.training.latents import encode_split
from transop.training.session import Session


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
    return pairs_by_settings(
        session.settings.pairs,
        network,
        dataset,
        device=session.device,
        ranks=session.ranks,
        progress=session.progress,
    )


def pairs_by_settings(
    settings: PairSettings,
    network: Autoencoder,
    dataset: ImageDataset,
    *,
    device: torch.device | str = "cpu",
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> PairSource:
    """Build pairs of training images.

    Args:
        settings: strategy and neighbours.
        network: is asked for latents where the strategy needs them.
        dataset: the images.
        device: where features and distances are computed.
        ranks: the processes that share the work.
        progress: announces long work.
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
