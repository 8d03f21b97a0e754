"""Errors and accuracies over whole splits, in chunks."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from transop.data import ImageDataset
from transop.evaluation.protocol import PathModel

CHUNK = 250  # measured: larger chunks fall out of the cache and decode at half the speed


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
