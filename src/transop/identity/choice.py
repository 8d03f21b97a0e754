"""Which of the three sources decides what counts as the same."""

from __future__ import annotations

from transop.config import Settings
from transop.data import ImageDataset
from transop.errors import SettingsError
from transop.identity.interface import Source

FEWEST_IMAGES = 60  # a graph of fewer has no parts worth the name


def choose_source(settings: Settings, dataset: ImageDataset) -> Source | None:
    """Choose where identity comes from; None if nothing can tell identities apart.

    ``identity.source = "auto"`` takes the user's classifier if its weights are given, else labels
    or attributes if there are any, else the neighbour graph.

    Args:
        settings: of the run.
        dataset: its images.
    """
    wanted = settings.identity.source
    if wanted == "auto":
        if settings.classifier.weights is not None:
            return "classifier"
        if has_labels(dataset):
            return "labels"
        return "graph" if len(dataset.splits["train"]) >= FEWEST_IMAGES else None
    if wanted == "classifier" and settings.classifier.weights is None:
        raise SettingsError(
            "identity.source = 'classifier' needs your classifier: give classifier.factory and "
            "classifier.weights, or use 'auto'"
        )
    if wanted == "labels" and not has_labels(dataset):
        raise SettingsError(
            f"identity.source = 'labels', but data set '{dataset.meta.name}' has no labels that "
            "differ, and no attributes; use 'graph' or 'auto'"
        )
    if wanted == "graph" and len(dataset.splits["train"]) < FEWEST_IMAGES:
        raise SettingsError(
            f"identity.source = 'graph' needs at least {FEWEST_IMAGES} training images, data set "
            f"'{dataset.meta.name}' has {len(dataset.splits['train'])}; use 'auto'"
        )
    return wanted


def has_labels(dataset: ImageDataset) -> bool:
    """Say whether labels or attributes tell the training images apart."""
    if dataset.labels is None:
        return dataset.attributes is not None
    training = dataset.labels[dataset.splits["train"]]
    return bool((training != training[0]).any()) or dataset.attributes is not None
