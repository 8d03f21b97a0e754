"""Measure how many images per second learned and fixed augmentations make, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from transop import Run
from transop.augment import Guard, TransportAugment
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import (
    CoefficientEncoder,
    LeNet,
    build_autoencoder,
    prefer_channels_last,
)
from transop.operators import TransportOperators
from transop.progress import Progress, silent
from transop_paper.bench.peak import measure_peak

ELASTIC = "elastic (kornia)"
_WARM_UP = 3
_SIDE = 1_024  # of the matrices whose product shows how fast torch computes at best

Augmentation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class AugmentSpeed:
    """How fast one augmentation is on one kind of image."""

    name: str
    image_size: int  # side in pixels
    channels: int
    seconds: tuple[float, ...]  # of every trial, each one batch
    images_per_second: float  # of the trial in the middle
    over_elastic: float  # this speed over that of kornia's elastic distortion, in the same run
    # the networks' floating-point operations per second over the measured peak; None where no
    # network computes, or not in float32, or how much depends on the images
    peak_share: float | None


@dataclass(frozen=True)
class AugmentBenchmark:
    """All augmentations on all kinds of images."""

    batch_size: int
    n_trials: int
    n_threads: int  # of torch
    peak_gflops: float  # the faster of a loop of multiply-adds and a product of large matrices
    speeds: tuple[AugmentSpeed, ...]


def bench_augment(
    *,
    batch_size: int = 256,
    n_trials: int = 15,
    runs: Sequence[Run] = (),
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> AugmentBenchmark:
    """Time ours, kornia's RandAugment and kornia's elastic transform on the same batches.

    Contenders take turns within every trial, so that a machine that slows down slows all of them.
    A guard's speed depends on model and images; pass a run to measure it on held-out images.
    Without runs, untrained models (`stand_in_models`) and noise stand in, and hardly a move is
    refused.

    Args:
        batch_size: images per call.
        n_trials: calls that are timed.
        runs: trained runs to use instead, with their data.
        device: where to compute.
        progress: announces the trials.
    """
    if batch_size < 1 or n_trials < 1:
        raise UserError(f"batch_size = {batch_size} and n_trials = {n_trials} must be at least 1")
    peak = _measure_peak()
    speeds: list[AugmentSpeed] = []
    for model, images in _subjects(runs, batch_size):
        channels, size, _ = model.image_shape
        images = images.to(device)
        contenders = _contenders(model.to(device), images)
        seconds = _race(contenders, images, n_trials, progress, f"{size} x {size}")
        work = _work(model)
        slowest = median(seconds[ELASTIC])
        for name, times in seconds.items():
            rate, flops = batch_size / median(times), work.get(name)
            share = None if flops is None else flops * rate / peak
            ratio = slowest / median(times)
            speeds.append(AugmentSpeed(name, size, channels, tuple(times), rate, ratio, share))
    n_threads = torch.get_num_threads()
    return AugmentBenchmark(batch_size, n_trials, n_threads, peak / 1e9, tuple(speeds))


def _subjects(runs: Sequence[Run], batch_size: int) -> Iterator[tuple[ManifoldAutoencoder, Tensor]]:
    """Give models, each with a batch of images."""
    for run in runs:
        yield run.model, run.held_out.batch(torch.arange(batch_size) % len(run.held_out))
    for model in () if runs else stand_in_models():
        generator = torch.Generator().manual_seed(0)
        yield model, torch.rand(batch_size, *model.image_shape, generator=generator)


def _race(
    contenders: dict[str, Augmentation],
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


_WHOLE, _ONCE = "transport", "transport, encoded once"


def _contenders(
    model: ManifoldAutoencoder, images: Float[Tensor, "b c h w"]
) -> dict[str, Augmentation]:
    guard = Guard(threshold=0.8)
    if not model.names_classes:
        channels, size, _ = model.image_shape
        judge = LeNet(image_size=size, channels=channels, n_classes=10).to(model.device)
        guard = Guard(judge, 0.0)
    contenders: dict[str, Augmentation] = {}
    for suffix, options in (
        ("", {}),
        (", bfloat16", {"bfloat16": True}),
        (", guard", {"guard": guard}),
    ):
        augment = TransportAugment(model, **options)
        contenders[_WHOLE + suffix] = augment
        contenders[_ONCE + suffix] = _encoded_once(augment, images)
    return {**contenders, **fixed_augmentations(model.image_shape[0])}


def _encoded_once(augment: TransportAugment, images: Tensor) -> Augmentation:
    dataset, everyone = augment.for_dataset(images), torch.arange(len(images))

    def moved(_: Tensor) -> Tensor:
        batch = dataset[everyone]
        assert isinstance(batch, Tensor)
        return batch

    return moved


def fixed_augmentations(channels: int) -> dict[str, Augmentation]:
    """Build the augmentations of pixels that ours is compared with."""
    from kornia.augmentation import RandomElasticTransform
    from kornia.augmentation.auto import RandAugment
    from kornia.augmentation.auto.rand_augment.rand_augment import default_policy

    # The operation "color" takes three channels only.
    policy = [entry for entry in default_policy if not (channels == 1 and entry[0][0] == "color")]
    return {
        "RandAugment (kornia)": RandAugment(n=2, m=6, policy=policy),
        ELASTIC: RandomElasticTransform(
            kernel_size=(25, 25), sigma=(4.0, 4.0), alpha=(2.4, 2.4), p=1.0
        ),
    }


def _work(model: ManifoldAutoencoder) -> dict[str, int]:
    """Count the floating-point operations of the networks per image, multiply-adds as two."""
    image = torch.zeros(2, *model.image_shape, device=model.device)
    latent = torch.zeros(2, model.latent_dimension, device=model.device)
    counts = []
    for network, inputs in (
        (model.autoencoder.encoder, image),
        (model.autoencoder.decoder, latent),
        (model.coefficient_encoder, latent),
    ):
        with FlopCounterMode(display=False) as counter:
            if network is not None:
                network(inputs)
        counts.append(counter.get_total_flops() // 2)
    return {_WHOLE: sum(counts), _ONCE: sum(counts[1:])}


def _measure_peak() -> float:
    matrix = torch.rand(_SIDE, _SIDE)
    seconds = []
    for _ in range(_WARM_UP + 10):
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - start)
    return max(2 * _SIDE**3 / min(seconds), measure_peak(torch.get_num_threads()))


def stand_in_models() -> list[ManifoldAutoencoder]:
    """Build untrained models with the numbers of the recipes ``mnist-cpu`` and ``faces``."""
    return [
        _untrained("mnist", size=28, channels=1, latent=10, width=32, n_operators=16),
        _untrained("deep", size=64, channels=3, latent=32, width=16, n_operators=32),
    ]


def _untrained(
    name: str, *, size: int, channels: int, latent: int, width: int, n_operators: int
) -> ManifoldAutoencoder:
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
