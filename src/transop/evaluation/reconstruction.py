"""What a model must offer to be measured, and its errors and accuracies over whole splits."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.data import ImageDataset


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
    return dataset.splits[dataset.held_out_split][:most]


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
