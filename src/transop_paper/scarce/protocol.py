"""How the small network is trained and scored: the same for every row."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from transop.data import ImageDataset
from transop.errors import UserError
from transop.networks import LeNet, prefer_channels_last
from transop.progress import Progress, silent

_STEPS_PER_CHUNK = 50  # training images are made for 50 steps at once, because that is fastest

_COUNTS = (
    "n_per_class",
    "n_steps",
    "batch_size",
    "n_unlabelled_steps",
    "unlabelled_batch_size",
    "n_copies",
)

MakeImages = Callable[[int], tuple[Tensor, Tensor]]
Classify = Callable[[Int[np.ndarray, " b"]], Tensor]  # rows of the data set to scores


@dataclass(frozen=True)
class Protocol:
    """The numbers that every row of the table shares."""

    n_per_class: int = 10  # labelled images of each class; every seed draws its own
    n_steps: int = 10_000  # optimiser steps; the network after the last one is scored
    batch_size: int = 50  # images per step, drawn with replacement
    learning_rate: float = 1e-3  # of Adam, at the start
    weight_decay: float = 1e-4  # of Adam
    # whether the learning rate stays or falls to zero along a cosine
    schedule: Literal["constant", "cosine"] = "cosine"
    real_share: float = 0.25  # share of a batch that learned moves leave alone
    # moved images drawn before training, from which every batch takes its own at random; 0
    # draws new ones for every batch, which is the same but for repetitions
    pool_size: int = 50_000
    n_unlabelled_steps: int = 2_000  # optimiser steps of rows that also use unlabelled images
    unlabelled_batch_size: int = 200  # unlabelled images per step, drawn with replacement
    n_copies: int = 2  # moved copies of every unlabelled image, drawn before training
    n_scored: int = 0  # held-out images looked at; 0 for all

    def __post_init__(self) -> None:
        """Refuse numbers that make no experiment."""
        for name in _COUNTS:
            if (value := getattr(self, name)) < 1:
                raise UserError(f"{name} = {value} must be at least 1")
        if self.schedule not in ("constant", "cosine"):
            raise UserError(f"schedule = {self.schedule!r} is unknown; use constant or cosine")
        if not 0 <= self.real_share <= 1:
            raise UserError(f"real_share = {self.real_share} must be a share, from 0 to 1")

    def rate_at(self, step: int) -> float:
        """Give the learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self.n_steps))


# The full protocol is the paper's; the quick one shows that every part works.
SCALES: dict[str, Protocol] = {
    "full": Protocol(),
    "quick": Protocol(
        n_steps=150, pool_size=1_000, n_unlabelled_steps=50, n_copies=1, n_scored=500
    ),
}


def train_network(
    make_images: MakeImages,
    protocol: Protocol,
    *,
    image_shape: tuple[int, int, int],
    n_classes: int,
    seed: int,
    progress: Progress = silent,
    description: str = "training",
) -> LeNet:
    """Train LeNet-5 with Adam on images that are made while training goes on."""
    network = new_network(image_shape, n_classes, seed)
    optimiser = torch.optim.Adam(
        network.parameters(), weight_decay=protocol.weight_decay, fused=True
    )
    starts = range(0, protocol.n_steps, _STEPS_PER_CHUNK)
    for start in progress(starts, description, len(starts)):
        n_steps = min(_STEPS_PER_CHUNK, protocol.n_steps - start)
        images, labels = make_images(n_steps * protocol.batch_size)
        batches = zip(
            torch.split(images, protocol.batch_size),
            torch.split(labels, protocol.batch_size),
            strict=True,
        )
        for step, (batch, truth) in enumerate(batches, start):
            loss = cross_entropy(network(batch), truth)
            descend(optimiser, loss, protocol.rate_at(step))
    return network.eval()


def new_network(
    image_shape: tuple[int, int, int], n_classes: int, seed: int, kind: type[LeNet] = LeNet
) -> LeNet:
    """Make an untrained LeNet-5 whose first weights depend on the seed alone."""
    channels, size, _ = image_shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = kind(image_size=size, channels=channels, n_classes=n_classes)
    prefer_channels_last(network)
    return network


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, learning_rate: float) -> None:
    """Take one optimiser step down the gradient of a loss."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


@torch.inference_mode()
def score(classify: Classify, dataset: ImageDataset, split: str, *, n_images: int = 0) -> float:
    """Give the accuracy on a split, in percent; on its first ``n_images`` if not 0."""
    assert dataset.labels is not None
    rows = dataset.splits[split]
    rows = rows[:n_images] if n_images else rows
    guesses = [
        classify(rows[start : start + 500]).argmax(1).numpy() for start in range(0, len(rows), 500)
    ]
    return float(100 * np.mean(np.concatenate(guesses) == dataset.labels[rows]))


def draw_labelled(
    dataset: ImageDataset, n_per_class: int, seed: int
) -> tuple[Float[Tensor, "n c h w"], Int[Tensor, " n"], Int[np.ndarray, " n"]]:
    """Draw the labelled images of a seed from the training split, as many of every class.

    Gives the images, their labels, and which rows of the data set they are.
    """
    if dataset.labels is None:
        raise UserError(f"data set '{dataset.meta.name}' has no labels, which this table needs")
    generator = torch.Generator().manual_seed(seed)
    train, chosen = dataset.splits["train"], []
    for label in range(dataset.n_classes):
        members = train[dataset.labels[train] == label]
        if len(members) < n_per_class:
            raise UserError(
                f"n_per_class = {n_per_class}, but class {label} has {len(members)} images"
            )
        order = torch.randperm(len(members), generator=generator).numpy()
        chosen.append(members[order[:n_per_class]])
    rows = np.concatenate(chosen)
    return dataset.batch(rows), torch.from_numpy(dataset.labels[rows]), rows
