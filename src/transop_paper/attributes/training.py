"""The classifier of images that have attributes instead of a class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor

from transop.config import ClassifierSettings
from transop.data import ImageDataset, cache_folder
from transop.errors import SettingsError
from transop.evaluation import held_out_rows
from transop.model import ManifoldAutoencoder
from transop.networks import prefer_channels_last
from transop.training import Loop, Session, load_images
from transop_paper.attributes.network import (
    AttributeNet,
    DynamicLossWeights,
    attribute_losses,
    build_attribute_net,
)
from transop_paper.celeba import SIXTEEN_ATTRIBUTES
from transop_paper.resnet import published_resnet

PHASE = "classifier"
WEIGHT_DECAY = 1e-4  # of Adam
_CHUNK = 500


def wants_attributes(settings: ClassifierSettings, dataset: ImageDataset) -> bool:
    """Say whether the classifier is to tell attributes: if asked to, or if there is no class."""
    if settings.network == "attributes":
        return True
    undecided = settings.network == "auto" and settings.domain == "image"
    return (
        undecided
        and settings.factory is None
        and dataset.labels is None
        and dataset.attributes is not None
    )


def make_attribute_classifier(
    session: Session, dataset: ImageDataset
) -> tuple[AttributeNet, dict[str, Any]]:
    """Build the attribute classifier the settings ask for, and what builds it again."""
    settings = session.settings.classifier
    names = _attributes_to_tell(settings, dataset)
    weights: str | Path | None = settings.imagenet_weights
    if weights == "published":
        weights = published_resnet(cache_folder())
    path = None if weights is None else Path(weights)
    network = build_attribute_net(names, trunk=settings.trunk, imagenet_weights=path)
    prefer_channels_last(network)
    numbers = {"attribute_names": list(names), "trunk": settings.trunk}
    return network, {"network": "attributes", "numbers": numbers}


def _attributes_to_tell(settings: ClassifierSettings, dataset: ImageDataset) -> tuple[str, ...]:
    """Name the attributes to learn: those asked for, else the paper's sixteen, else all."""
    if dataset.attributes is None or dataset.meta.attribute_names is None:
        raise SettingsError(
            f"classifier.network = 'attributes', but data set '{dataset.meta.name}' has no "
            "attributes; use 'auto', or set classifier.epochs = 0"
        )
    if settings.domain != "image" or dataset.n_channels != 3:
        raise SettingsError(
            f"the attribute classifier reads colour images, not classifier.domain = "
            f"'{settings.domain}' with {dataset.n_channels} channels; use 'image' and "
            "data.channels = 3"
        )
    known = dataset.meta.attribute_names
    if unknown := set(settings.attributes) - set(known):
        raise SettingsError(
            f"classifier.attributes: data set '{dataset.meta.name}' has no "
            f"'{sorted(unknown)[0]}'; it has {', '.join(known)}"
        )
    usual = SIXTEEN_ATTRIBUTES if set(SIXTEEN_ATTRIBUTES) <= set(known) else known
    return settings.attributes or usual


def attribute_columns(
    dataset: ImageDataset, names: tuple[str, ...], rows: np.ndarray
) -> Int8[np.ndarray, "n k"]:
    """Give the values (-1 or 1) of named attributes of some images."""
    assert dataset.attributes is not None
    assert dataset.meta.attribute_names is not None
    columns = [dataset.meta.attribute_names.index(name) for name in names]
    values: np.ndarray = dataset.attributes[rows][:, columns]
    return values


def attribute_frequency(dataset: ImageDataset, names: tuple[str, ...]) -> Float[Tensor, " k"]:
    """Say which share of the training images has each attribute."""
    present = attribute_columns(dataset, names, dataset.splits["train"]) > 0
    return torch.from_numpy(present.mean(0)).float().clamp(1e-3, 1 - 1e-3)


def train_attributes(
    session: Session, network: AttributeNet, dataset: ImageDataset, model: ManifoldAutoencoder
) -> None:
    """Train trunk and heads; after every epoch the attributes' losses are weighted anew.

    Differs from the paper: a share of the images may be shown as reconstructed, so that the
    classifier knows decoded images too and is not led astray by their blur.
    """
    settings = session.settings.classifier
    optimiser = torch.optim.Adam(
        network.parameters(), settings.learning_rate, weight_decay=WEIGHT_DECAY
    )
    wrapped = session.set_up(network)
    weighting = DynamicLossWeights(len(network.attribute_names), settings.loss_temperature)
    weighting.to(session.device)
    loop = Loop.over(
        session,
        PHASE,
        settings,
        torch.from_numpy(dataset.splits["train"]),
        modules={"classifier": network, "weighting": weighting},
        optimisers={"classifier": optimiser},
    )
    names = network.attribute_names
    held_out = dataset.splits.get("validation", held_out_rows(dataset))
    held_out_truth = torch.from_numpy(attribute_columns(dataset, names, held_out))
    held_out_truth = held_out_truth.to(session.device)
    frequency = None
    if settings.even_odds:
        frequency = attribute_frequency(dataset, names).to(session.device)
    network.train()
    for step in loop:
        (chosen,) = loop.batch()
        images = load_images(dataset, chosen, session)
        if n_shown := round(settings.reconstructed * len(images)):
            images[:n_shown] = model.reconstruct(images[:n_shown])
        with session.seeded(PHASE, "dropout", step):  # so that a resumed run drops the same units
            logits = wrapped(images).float()
        truth = torch.from_numpy(attribute_columns(dataset, names, chosen.numpy()))
        losses = attribute_losses(logits, truth.to(logits.device), frequency)
        if not loop.minimise(optimiser, weighting(losses)):
            continue
        correct = (logits.argmax(2) == (truth > 0).to(logits.device)).float().mean().item()
        loop.record(loss=losses.mean().item(), accuracy=correct)
        if (step + 1) % loop.steps_per_epoch == 0 and step + 1 < loop.n_steps:
            logits = _predict(network, dataset, held_out).to(session.device)
            weighting.update(attribute_losses(logits, held_out_truth, frequency))
            network.train()


def attribute_accuracies(network: AttributeNet, dataset: ImageDataset) -> dict[str, Any]:
    """Measure every attribute on held-out images, beside always giving the more frequent answer."""
    rows = held_out_rows(dataset)
    present = attribute_columns(dataset, network.attribute_names, rows) > 0
    guesses = _predict(network, dataset, rows).argmax(2).numpy() == 1
    correct = guesses == present
    accuracies, share = correct.mean(0), present.mean(0)
    n_present, n_absent = present.sum(0).clip(1), (~present).sum(0).clip(1)
    hits = (correct & present).sum(0) / n_present
    rejections = (correct & ~present).sum(0) / n_absent
    return {
        "test_accuracy": float(accuracies.mean()),
        "majority_accuracy": float(np.maximum(share, 1 - share).mean()),
        # mean over images with and without the attribute; always one answer gives 0.5
        "balanced_accuracy": float(((hits + rejections) / 2).mean()),
        "attributes": list(network.attribute_names),
        "attribute_accuracies": [round(float(value), 4) for value in accuracies],
    }


@torch.no_grad()
def _predict(
    network: AttributeNet, dataset: ImageDataset, rows: np.ndarray
) -> Float[Tensor, "n k 2"]:
    """Score images in evaluation mode, on the CPU."""
    network.eval()
    device = next(network.parameters()).device
    parts = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
    return torch.cat([network(dataset.batch(part, device=device)).float().cpu() for part in parts])
