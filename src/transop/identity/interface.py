"""The one interface to what may not change when an image is moved, and who decides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from transop.config import Settings
from transop.data import ImageDataset
from transop.errors import SettingsError, UserError

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder

Source = Literal["labels", "classifier", "graph"]
FEWEST_IMAGES = 60  # a graph of fewer has no parts worth the name


@dataclass(frozen=True)
class Identity:
    """What counts as the same: a network whose opinion a move must not change.

    Attributes:
        source: where it comes from: ``"labels"`` (a classifier trained on them),
            ``"classifier"`` (the user's own) or ``"graph"`` (communities of the neighbour graph,
            found without labels).
        network: gives logits.
        domain: whether the network reads images or scaled latents.
        recipe: name and numbers that build the network again, or None.
        names: what its classes are called, or None if nobody has named them.
        facts: how it was found and how good it is, as plain values.
    """

    source: Source
    network: nn.Module
    domain: Literal["image", "latent"]
    recipe: dict[str, Any] | None = None
    names: tuple[str, ...] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        """Say in words whose opinion it is."""
        return describe_identity({"source": self.source, **self.facts})

    def install(self, model: ManifoldAutoencoder) -> None:
        """Let a model keep this identity from now on; it is stored with the model."""
        model.classifier = self.network.to(model.device)
        model.classifier_domain = self.domain
        model.classifier_recipe = self.recipe
        model.identity_facts = {"source": self.source, **self.facts}

    @classmethod
    def of(cls, model: ManifoldAutoencoder) -> Identity:
        """Read the identity a model was given, or say how it gets one."""
        if model.classifier is None:
            raise UserError("this model has no identity; train the phase 'classifier'")
        facts = dict(model.identity_facts or {"source": "labels"})
        source: Source = facts.pop("source")
        names = model.attribute_names or model.class_names
        if source == "graph":
            names = tuple(f"group {number + 1}" for number in range(facts["n_communities"]))
        domain, recipe = model.classifier_domain, model.classifier_recipe
        return cls(source, model.classifier, domain, recipe, names, facts)


def describe_identity(facts: dict[str, Any] | None) -> str:
    """Say in words whose opinion decides: the field ``identity`` of a model's ``config.json``."""
    if facts is None:
        return "none"
    if facts["source"] == "graph":
        return f"{facts['n_communities']} groups of the neighbour graph, found without labels"
    if facts["source"] == "classifier":
        return "your own classifier"
    return "a classifier trained on the labels"


def choose_source(settings: Settings, dataset: ImageDataset) -> Source | None:
    """Choose where identity comes from; None if nothing can tell identities apart.

    ``identity.source = "auto"`` takes the user's classifier if its weights are given, else labels
    or attributes if there are any, else the neighbour graph.
    """
    wanted, n_images = settings.identity.source, len(dataset.splits["train"])
    if wanted == "auto":
        if settings.classifier.weights is not None:
            return "classifier"
        if has_labels(dataset):
            return "labels"
        return "graph" if n_images >= FEWEST_IMAGES else None
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
    if wanted == "graph" and n_images < FEWEST_IMAGES:
        raise SettingsError(
            f"identity.source = 'graph' needs at least {FEWEST_IMAGES} training images, data set "
            f"'{dataset.meta.name}' has {n_images}; use 'auto'"
        )
    return wanted


def has_labels(dataset: ImageDataset) -> bool:
    """Say whether labels or attributes tell the training images apart."""
    if dataset.labels is None:
        return dataset.attributes is not None
    training = dataset.labels[dataset.splits["train"]]
    return bool((training != training[0]).any()) or dataset.attributes is not None
