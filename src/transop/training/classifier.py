"""Fourth phase: the classifier whose opinion decides what counts as the same identity."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from transop.config import ClassifierSettings
from transop.data import ImageDataset
from transop.errors import ArtifactError, SettingsError
from transop.files import require_regular
from transop.model import ManifoldAutoencoder
from transop.networks import AttributeNet, build_classifier, prefer_channels_last
from transop.training.attributes import (
    WEIGHT_DECAY,
    attribute_accuracies,
    make_attribute_classifier,
    train_attributes,
    wants_attributes,
)
from transop.training.autoencoder import load_images
from transop.training.batches import BatchOrder
from transop.training.latents import encode_split
from transop.training.loop import Loop, steps_in
from transop.training.measures import held_out_rows
from transop.training.schedule import schedule_rate
from transop.training.session import Session

logger = logging.getLogger(__name__)

PHASE = "classifier"


def train_classifier(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    """Give a model its classifier: trained on labels or attributes, or the user's own.

    Args:
        session: the run.
        model: gets the classifier and its domain.
        dataset: images with labels or attributes; a classifier with weights of its own needs
            neither.

    Returns:
        The held-out accuracy, where it can be measured.
    """
    settings = session.settings.classifier
    classifier, recipe = _make(session, settings, model, dataset)
    prefer_channels_last(classifier)  # as it will be when loaded: another layout rounds otherwise
    model.classifier = classifier.to(session.device)
    model.classifier_domain = settings.domain
    model.classifier_recipe = recipe
    if settings.weights is not None:
        _load_weights(classifier, settings.weights)
    elif isinstance(classifier, AttributeNet):
        train_attributes(session, classifier, dataset, model)
    else:
        _train(session, model, classifier, dataset)
    classifier.eval()
    if isinstance(classifier, AttributeNet):
        return attribute_accuracies(classifier, dataset)
    if dataset.labels is None:
        return {}
    return {"test_accuracy": _accuracy(model, dataset)}


def _train(
    session: Session, model: ManifoldAutoencoder, classifier: nn.Module, dataset: ImageDataset
) -> None:
    settings, rows = session.settings.classifier, dataset.splits["train"]
    if dataset.labels is None:
        raise SettingsError(
            f"data set '{dataset.meta.name}' has no labels to train a classifier on; give "
            "classifier.factory and classifier.weights, or set classifier.epochs = 0"
        )
    batch_size = min(settings.batch_size, len(rows))
    per_epoch, n_steps = steps_in(settings.epochs, len(rows), batch_size)
    optimiser = torch.optim.Adam(
        classifier.parameters(), settings.learning_rate, weight_decay=WEIGHT_DECAY
    )
    wrapped = session.set_up(classifier)
    inputs_of = _inputs(session, model, dataset)
    positions = BatchOrder(session, PHASE, np.arange(len(rows)), batch_size)
    labels = torch.from_numpy(dataset.labels[rows])
    loop = Loop(
        session,
        PHASE,
        n_steps,
        modules={"classifier": classifier},
        optimisers={"classifier": optimiser},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        explain=lambda: f"lower classifier.learning_rate (now {settings.learning_rate:g})",
    )
    classifier.train()
    for step in loop:
        chosen = positions.rows(step)
        logits = wrapped(inputs_of(chosen))
        truth = labels[torch.from_numpy(chosen)].to(logits.device)
        value = cross_entropy(logits.float(), truth)
        if not loop.check(value):
            continue
        peak = settings.learning_rate
        rate = schedule_rate(optimiser, settings.schedule, peak, step, n_steps)
        loop.descend(optimiser, value, rate)
        correct = (logits.argmax(1) == truth).float().mean().item()
        loop.record(loss=value.item(), accuracy=correct)


def _inputs(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> Callable[[np.ndarray], Tensor]:
    """Say how positions in the training split become what the classifier reads."""
    rows = dataset.splits["train"]
    if session.settings.classifier.domain == "image":
        return lambda chosen: load_images(dataset, rows[chosen], session)
    latents = encode_split(model.autoencoder, dataset, ranks=session.ranks) / model.latent_scale
    return lambda chosen: latents[torch.from_numpy(chosen).to(latents.device)]


def _accuracy(model: ManifoldAutoencoder, dataset: ImageDataset) -> float:
    rows, correct = held_out_rows(dataset), 0
    assert dataset.labels is not None
    for start in range(0, len(rows), 1000):
        part = rows[start : start + 1000]
        guesses = model.classify(dataset.batch(part)).argmax(1).cpu().numpy()
        correct += int((guesses == dataset.labels[part]).sum())
    return correct / len(rows)


def _make(
    session: Session,
    settings: ClassifierSettings,
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
) -> tuple[nn.Module, dict[str, Any]]:
    """Build the classifier the settings name, and what builds it again."""
    with session.seeded("weights", PHASE):
        if settings.factory is not None:
            return call_factory(settings.factory), {"factory": settings.factory}
        if wants_attributes(settings, dataset):
            return make_attribute_classifier(session, dataset)
        suited = {"image": "lenet", "latent": "latent-mlp"}[settings.domain]
        if settings.network not in ("auto", suited):
            raise SettingsError(
                f"classifier.network = '{settings.network}' does not read the domain "
                f"'{settings.domain}'; use '{suited}' or change classifier.domain"
            )
        numbers = {"n_classes": max(2, dataset.n_classes)}
        if settings.domain == "image":
            numbers |= {"image_size": dataset.image_size, "channels": dataset.n_channels}
        else:
            numbers |= {"latent_dimension": model.latent_dimension}
        return build_classifier(suited, **numbers), {"network": suited, "numbers": numbers}


def call_factory(name: str) -> nn.Module:
    """Build the user's classifier from ``module:function``; the function takes no arguments."""
    module_name, _, function_name = name.partition(":")
    try:
        factory = getattr(import_module(module_name), function_name)
        classifier = factory()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SettingsError(
            f"classifier.factory = '{name}' could not be called ({error}); give module:function, "
            "where the function takes no arguments and returns a torch module"
        ) from None
    if not isinstance(classifier, nn.Module):
        raise SettingsError(
            f"classifier.factory = '{name}' returned {type(classifier).__name__}, not a module"
        )
    return classifier


def _load_weights(classifier: nn.Module, weights: str) -> None:
    try:
        require_regular(weights)
        classifier.load_state_dict(load_file(Path(weights)))
    except (OSError, SafetensorError) as error:
        raise ArtifactError(
            f"classifier.weights = '{weights}' is not a readable safetensors file: {error}"
        ) from None
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise ArtifactError(
            f"classifier.weights = '{weights}' does not fit the classifier: {first}"
        ) from None
