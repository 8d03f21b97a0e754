"""Measure a training loop: how fast it is with every augmentation, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from transop.augment import TransportAugment
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import LeNet
from transop.progress import Progress, silent
from transop_paper.bench.augment import ELASTIC, fixed_augmentations, stand_in_models

_N_CLASSES = 10
_WARM_UP = 3

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LoopSize:
    """How much is measured."""

    batch_size: int = 256  # images per step
    n_steps: int = 20  # steps that are timed, per round
    rounds: int = 3  # how often every loop has its turn; the median counts
    n_workers: int = 2  # processes of the DataLoader where it has any


@dataclass(frozen=True)
class LoopSpeed:
    """How fast one loop is."""

    network: str  # what is trained
    image_size: int  # side in pixels
    augmentation: str
    workers: int  # processes of the DataLoader; 0 if the main process augments
    images_per_second: float  # of the whole loop
    waiting: float  # share of the time in which the loop waits for its next batch
    over_elastic: float  # time of this loop over that with elastic distortion in the same place


@dataclass(frozen=True)
class LoopBenchmark:
    """Every loop on every kind of image."""

    threads: int
    size: LoopSize
    speeds: tuple[LoopSpeed, ...]


def bench_loop(
    size: LoopSize,
    *,
    models: list[ManifoldAutoencoder] | None = None,
    progress: Progress = silent,
) -> LoopBenchmark:
    """Train a classifier on random images, with every augmentation in the loop.

    Loops take turns, so that a machine that slows down slows all of them. Small grey images train
    a LeNet-5, colour images a residual network of eight layers.

    Args:
        size: how much is measured.
        models: models of the moves; untrained ones stand in if left out.
        progress: announces the rounds.
    """
    if min(size.batch_size, size.n_steps, size.rounds) < 1 or size.n_workers < 0:
        raise UserError(f"{size}: all numbers must be at least 1, n_workers at least 0")
    speeds = [
        speed for model in models or stand_in_models() for speed in _compare(model, size, progress)
    ]
    return LoopBenchmark(torch.get_num_threads(), size, tuple(speeds))


def _compare(model: ManifoldAutoencoder, size: LoopSize, progress: Progress) -> list[LoopSpeed]:
    channels, side, _ = model.image_shape
    generator = torch.Generator().manual_seed(0)
    n_images = size.batch_size * (size.n_steps + _WARM_UP)
    images = torch.rand(n_images, channels, side, side, generator=generator)
    labels = torch.randint(_N_CLASSES, (n_images,), generator=generator)
    network, step = _make_network(channels, side)
    data = _datasets(model, images, labels)
    places = sorted({0, size.n_workers})
    loops = [(name, workers) for workers in places for name in data]
    seconds: dict[tuple[str, int], list[tuple[float, float]]] = {loop: [] for loop in loops}
    for _ in progress(range(size.rounds), f"{network}, {side} x {side}", size.rounds):
        for name, workers in loops:
            seconds[name, workers].append(_run(data[name], step, size, workers))
    middle = {loop: median(whole for whole, _ in times) for loop, times in seconds.items()}
    return [
        LoopSpeed(
            network,
            side,
            name,
            workers,
            size.n_steps * size.batch_size / middle[name, workers],
            median(waited / whole for whole, waited in seconds[name, workers]),
            middle[name, workers] / middle[ELASTIC, workers],
        )
        for name, workers in loops
    ]


class _Images(Dataset[Batch]):
    """Batches of images by lists of indices, augmented where they are read."""

    def __init__(
        self,
        images: Float[Tensor, "n c h w"],
        labels: Int[Tensor, " n"],
        augment: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self.images, self.labels, self.augment = images, labels, augment

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: list[int]) -> Batch:
        batch = self.images[rows]
        return batch if self.augment is None else self.augment(batch), self.labels[rows]


def _datasets(
    model: ManifoldAutoencoder, images: Tensor, labels: Tensor
) -> dict[str, Dataset[Batch]]:
    data: dict[str, Dataset[Batch]] = {"none": _Images(images, labels, None)}
    for name, fixed in fixed_augmentations(images.shape[1]).items():
        data[name] = _Images(images, labels, fixed)
    for suffix, short in (("", False), (", bfloat16", True)):
        augment = TransportAugment(model, bfloat16=short)
        data[f"transport{suffix}"] = _Images(images, labels, augment)
        data[f"transport, encoded once{suffix}"] = augment.for_dataset(images, labels)  # type: ignore[assignment]
    return data


def _run(
    dataset: Dataset[Batch], step: Callable[[Tensor, Tensor], None], size: LoopSize, workers: int
) -> tuple[float, float]:
    """Train for some steps and give the seconds in all, and those waited for batches."""
    sampler = BatchSampler(RandomSampler(dataset), size.batch_size, drop_last=True)  # type: ignore[arg-type]
    loader = DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=workers)
    batches: Iterator[Batch] = iter(loader)
    for _ in range(_WARM_UP):
        step(*next(batches))
    waited, start = 0.0, time.perf_counter()
    for _ in range(size.n_steps):
        asked = time.perf_counter()
        images, labels = next(batches)
        waited += time.perf_counter() - asked
        step(images, labels)
    return time.perf_counter() - start, waited


def _make_network(channels: int, side: int) -> tuple[str, Callable[[Tensor, Tensor], None]]:
    """Build a classifier and what trains it by one batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        name, network = (
            ("LeNet-5", LeNet(image_size=side, channels=1, n_classes=_N_CLASSES))
            if channels == 1
            else ("ResNet-8", _resnet(channels))
        )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)

    def step(images: Tensor, labels: Tensor) -> None:
        optimiser.zero_grad()
        images = images.contiguous(memory_format=torch.channels_last)
        nn.functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return name, step


class _Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, 2, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut = nn.Conv2d(n_in, n_out, 1, 2)

    def forward(self, maps: Tensor) -> Tensor:
        return torch.relu(self.body(maps) + self.shortcut(maps))


def _resnet(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, 1, 1),
        nn.ReLU(),
        _Block(16, 32),
        _Block(32, 64),
        _Block(64, 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, _N_CLASSES),
    )
