"""The one interface to what may not change when an image is moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from transop.errors import UserError

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder

Source = Literal["labels", "classifier", "graph"]


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
            names = community_names(facts["n_communities"])
        return cls(
            source,
            model.classifier,
            model.classifier_domain,
            model.classifier_recipe,
            names,
            facts,
        )


def community_names(n_communities: int) -> tuple[str, ...]:
    """Number communities from one, as nobody has named them."""
    return tuple(f"group {number}" for number in range(1, n_communities + 1))


def describe_identity(facts: dict[str, Any] | None) -> str:
    """Say in words whose opinion decides, from what is stored with a model.

    Args:
        facts: the field ``identity`` of a model's ``config.json``; None if it has none.
    """
    if facts is None:
        return "none"
    if facts["source"] == "graph":
        return f"{facts['n_communities']} groups of the neighbour graph, found without labels"
    if facts["source"] == "classifier":
        return "your own classifier"
    return "a classifier trained on the labels"
