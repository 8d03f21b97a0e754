"""What a model must offer to be measured, and its errors and accuracies over whole splits."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import ImageDataset, spread_out


class PathModel(Protocol):
    """Encodes images, decodes latents, and draws a path between two latents."""

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to latent points."""
        ...

    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map latent points to images in [0, 1]."""
        ...

    def latent_path(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], times: Float[Tensor, " t"]
    ) -> Float[Tensor, "b t d"]:
        """Follow the model's own path: at z0 for t = 0, near z1 for t = 1, beyond it after."""
        ...


CHUNK = 250  # measured: larger chunks fall out of the cache and decode at half the speed


def held_out_rows(dataset: ImageDataset, most: int = 10_000) -> np.ndarray:
    """Choose the images to measure on: test, else validation, else the training images."""
    return spread_out(dataset.splits[dataset.held_out_split], most)


def same_class_pairs(
    labels: Int[np.ndarray, " n"], n_per_class: int, generator: torch.Generator
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Draw pairs of different positions that carry the same label, so many for every class.

    Classes with fewer than two images are left out. What is returned are the positions of the
    first and of the second image of every pair.
    """
    first, second = [], []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            continue
        start = torch.randint(len(members), (n_per_class,), generator=generator).numpy()
        shift = torch.randint(1, len(members), (n_per_class,), generator=generator).numpy()
        first.append(members[start])
        second.append(members[(start + shift) % len(members)])
    return np.concatenate(first), np.concatenate(second)


@torch.inference_mode()
def reconstruction_error(model: PathModel, dataset: ImageDataset, indices: np.ndarray) -> float:
    """Average the squared error per pixel of decode(encode(x)) over the given images."""
    total = 0.0
    for start in range(0, len(indices), CHUNK):
        images = dataset.batch(indices[start : start + CHUNK])
        difference = model.decode(model.encode(images)).cpu() - images
        total += difference.square().flatten(1).mean(1).sum().item()
    return total / len(indices)


@torch.inference_mode()
def classifier_accuracy(
    classifier: Callable[[Tensor], Tensor], dataset: ImageDataset, indices: np.ndarray
) -> float:
    """Count how often the classifier's first choice is the label, as a share of one."""
    assert dataset.labels is not None
    correct = 0
    for start in range(0, len(indices), CHUNK):
        part = indices[start : start + CHUNK]
        guesses = classifier(dataset.batch(part)).argmax(1).cpu().numpy()
        correct += int((guesses == dataset.labels[part]).sum())
    return correct / len(indices)
