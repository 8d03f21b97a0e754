"""Measure how many images per second learned and fixed augmentations make, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor

from transop.augment import TransportAugment
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, prefer_channels_last
from transop.operators import TransportOperators
from transop.progress import Progress, silent

_GREY, _COLOUR = 28, 64
_WARM_UP = 2


@dataclass(frozen=True)
class AugmentSpeed:
    """How fast one augmentation is on one kind of image.

    Attributes:
        name: of the augmentation.
        image_size: side of the images, in pixels.
        channels: of the images.
        seconds: of every trial, each one batch.
        images_per_second: of the trial in the middle.
    """

    name: str
    image_size: int
    channels: int
    seconds: tuple[float, ...]
    images_per_second: float


def bench_augment(
    *,
    batch_size: int = 256,
    n_trials: int = 5,
    models: Sequence[ManifoldAutoencoder] = (),
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> list[AugmentSpeed]:
    """Time ours, kornia's RandAugment and kornia's elastic transform on the same batches.

    Contenders take turns within every trial, so that a machine that slows down slows all of them.
    Speed does not depend on the weights: without models, untrained ones stand in, with the
    numbers of the recipes ``mnist`` (28 x 28, grey) and ``faces`` (64 x 64, colour).

    Args:
        batch_size: images per call.
        n_trials: calls that are timed.
        models: models to use instead.
        device: where to compute.
        progress: announces the trials.
    """
    if batch_size < 1 or n_trials < 1:
        raise UserError(f"batch_size = {batch_size} and n_trials = {n_trials} must be at least 1")
    speeds = []
    for model in models or (_untrained(_GREY, 1), _untrained(_COLOUR, 3)):
        channels, size, _ = model.image_shape
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(batch_size, channels, size, size, generator=generator).to(device)
        contenders = _contenders(model.to(device))
        description = f"{size} x {size}"
        for name, times in _race(contenders, images, n_trials, progress, description).items():
            rate = batch_size / median(times)
            speeds.append(AugmentSpeed(name, size, channels, tuple(times), rate))
    return speeds


def _race(
    contenders: dict[str, Callable[[Tensor], Tensor]],
    images: Float[Tensor, "b c h w"],
    n_trials: int,
    progress: Progress,
    description: str,
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    trials = range(-_WARM_UP, n_trials)
    for trial in progress(trials, description, len(trials)):
        for name, augment in contenders.items():
            start = time.perf_counter()
            result = augment(images)
            if result.device.type == "cuda":
                torch.cuda.synchronize(result.device)
            if trial >= 0:
                seconds[name].append(time.perf_counter() - start)
            assert result.shape == images.shape
    return seconds


def _contenders(model: ManifoldAutoencoder) -> dict[str, Callable[[Tensor], Tensor]]:
    from kornia.augmentation import RandomElasticTransform
    from kornia.augmentation.auto import RandAugment
    from kornia.augmentation.auto.rand_augment.rand_augment import default_policy

    grey = model.image_shape[0] == 1
    # The operation "color" takes three channels only.
    policy = [entry for entry in default_policy if not (grey and entry[0][0] == "color")]
    return {
        "transport": TransportAugment(model),
        "RandAugment (kornia)": RandAugment(n=2, m=6, policy=policy),
        "elastic (kornia)": RandomElasticTransform(
            kernel_size=(25, 25), sigma=(4.0, 4.0), alpha=(2.4, 2.4), p=1.0
        ),
    }


def _untrained(size: int, channels: int) -> ManifoldAutoencoder:
    """Build an untrained model with the numbers of the recipe ``mnist`` or ``faces``."""
    name, latent, width, n_operators = (
        ("mnist", 10, 64, 16) if channels == 1 else ("conv", 16, 32, 24)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_autoencoder(
            name, image_size=size, channels=channels, latent_dimension=latent, width=width
        )
        encoder = CoefficientEncoder(latent, n_operators)
    operators = TransportOperators(n_operators, latent, generator=torch.Generator().manual_seed(0))
    model = ManifoldAutoencoder(network, operators, coefficient_encoder=encoder)
    prefer_channels_last(model)
    return model
