"""Measure how fast faces are drawn, and how much memory a large set on disk takes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import UInt8

from transop.artifacts import write_rows
from transop.data import DatasetMeta, ImageDataset
from transop.errors import UserError
from transop.networks import build_autoencoder, prefer_channels_last
from transop.progress import Progress, silent
from transop_paper.bench.cost import memory_now, start_watching_memory
from transop_paper.faces import generate_faces

_SIZE = 64
_BLOCK = 250
_BATCH = 100
_STEPS = 20  # of training the recipe ``faces``'s autoencoder afterwards


@dataclass(frozen=True)
class DrawingSpeed:
    """How fast faces were drawn; one entry of ``seconds`` per trial."""

    n_images: int
    image_size: int
    n_threads: int
    seconds: tuple[float, ...]

    @property
    def images_per_second(self) -> float:
        """Speed of the fastest trial: the one least disturbed by other programs."""
        return self.n_images / min(self.seconds)


@dataclass(frozen=True)
class StreamingMemory:
    """What a large set on disk took to be built, read once in random order and learned from."""

    n_images: int  # how many images of 64 x 64 x 3
    disk_megabytes: float  # size of the pixels on disk
    build_seconds: float  # writing them
    read_seconds: float  # reading every image once, in random order
    # highest memory of the process, file pages included; None where the system cannot tell
    peak_megabytes: float | None
    private_megabytes: float | None  # memory at the end that is not a page of the file


def bench_drawing(
    n_images: int = 2000, *, n_trials: int = 3, progress: Progress = silent
) -> DrawingSpeed:
    """Draw faces into memory, several times over."""
    if n_images < 1 or n_trials < 1:
        raise UserError(f"n_images = {n_images} and n_trials = {n_trials} must be at least 1")
    generate_faces(_BLOCK)  # the first call finds its memory and threads
    seconds = []
    for trial in progress(range(n_trials), "drawing faces", n_trials):
        start = time.perf_counter()
        generate_faces(n_images, seed=trial)
        seconds.append(time.perf_counter() - start)
    return DrawingSpeed(n_images, _SIZE, torch.get_num_threads(), tuple(seconds))


def bench_streaming(
    n_images: int = 200_000,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> StreamingMemory:
    """Build a set on disk, read it once in random order, and train on it for a few steps.

    A simulated reader hands over the images: drawn faces, shifted in brightness from block to
    block. What follows is what happens to every CelebA image.
    """
    if n_images < _BATCH:
        raise UserError(f"n_images = {n_images} must be at least {_BATCH}")
    start_watching_memory()
    with TemporaryDirectory(dir=folder) as scratch:
        place = Path(scratch) / "pixels"
        start = time.perf_counter()
        images, _ = write_rows(place, _simulated(n_images, progress))
        built = time.perf_counter()
        rows = np.arange(n_images, dtype=np.int64)
        meta = DatasetMeta("simulated", "drawn faces, repeated")
        dataset = ImageDataset(images, None, {"train": rows}, meta)
        order = np.random.default_rng(0).permutation(rows)
        starts = range(0, n_images, _BATCH)
        for first in progress(starts, "reading in random order", len(starts)):
            dataset.batch(order[first : first + _BATCH])
        read = time.perf_counter()
        _train(dataset, order)
        return StreamingMemory(
            n_images,
            dataset.images.nbytes / 2**20,
            built - start,
            read - built,
            memory_now("VmHWM"),
            memory_now("RssAnon"),
        )


def _simulated(n_images: int, progress: Progress) -> Iterator[UInt8[np.ndarray, "b 3 s s"]]:
    drawn = generate_faces(_BLOCK).images
    starts = range(0, n_images, _BLOCK)
    for first in progress(starts, "writing images", len(starts)):
        yield drawn[: n_images - first] ^ np.uint8(first // _BLOCK % 8)


def _train(dataset: ImageDataset, order: np.ndarray) -> None:
    network = build_autoencoder("conv", image_size=_SIZE, channels=3, latent_dimension=24, width=16)
    prefer_channels_last(network)
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    for step in range(_STEPS):
        first = step * _BATCH % (len(order) - _BATCH + 1)
        images = dataset.batch(order[first : first + _BATCH])
        loss = (network(images) - images).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
