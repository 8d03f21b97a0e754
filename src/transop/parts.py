"""Build the modules that a stored model's description names, and check its weights beforehand."""

from __future__ import annotations

import logging
from typing import TypedDict

import torch
from torch import Tensor, nn

from transop.description import FactoryDescription, ModelDescription
from transop.errors import ArtifactError
from transop.networks import (
    Autoencoder,
    CoefficientEncoder,
    build_autoencoder,
    build_classifier,
)
from transop.operators import TransportOperators

logger = logging.getLogger(__name__)


class Networks(TypedDict):
    """The networks of a model, with untrained weights."""

    autoencoder: Autoencoder
    coefficient_encoder: CoefficientEncoder | None
    classifier: nn.Module | None


class Parts(Networks):
    """All modules of a model, with untrained weights."""

    operators: TransportOperators


def build_parts(description: ModelDescription, classifier: nn.Module | None = None) -> Parts:
    """Build every module of a model from names and numbers.

    Args:
        description: names and numbers.
        classifier: takes the place of a classifier of the user's own, which is never imported.
    """
    known = description.classifier
    if isinstance(known, FactoryDescription) and classifier is None:
        logger.warning(
            "the model's classifier was built by %s; pass classifier= to load it", known.factory
        )
    return {
        **_networks(description, classifier),
        "operators": TransportOperators(**description.operators.model_dump()),
    }


def _networks(description: ModelDescription, classifier: nn.Module | None) -> Networks:
    encoder, known = description.coefficient_encoder, description.classifier
    if known is not None and classifier is None and not isinstance(known, FactoryDescription):
        classifier = build_classifier(known.network, **known.numbers.model_dump())
    return {
        "autoencoder": build_autoencoder(**description.autoencoder.model_dump()),
        "coefficient_encoder": CoefficientEncoder(**encoder.model_dump()) if encoder else None,
        "classifier": None if known is None else classifier,
    }


def check_shapes(
    description: ModelDescription, weights: dict[str, Tensor], classifier: nn.Module | None = None
) -> None:
    """Refuse weights that a description does not lead to, before any of them is read.

    Args:
        description: names and numbers; the networks are built without memory for their weights.
        weights: shapes and types; values are not looked at.
        classifier: the user's own, if it was passed in.
    """
    expected = _shapes(description, classifier)
    reads_classifier = any(name.startswith("classifier.") for name in expected)
    for name, weight in weights.items():
        if name.startswith("classifier.") and not reads_classifier:
            continue
        if name not in expected:
            raise ArtifactError(f"the model's description has no place for the weight '{name}'")
        if tuple(weight.shape) != expected[name]:
            raise ArtifactError(
                f"the weight '{name}' has shape {tuple(weight.shape)}, but the model's "
                f"description asks for {expected[name]}"
            )
    if missing := expected.keys() - weights.keys():
        raise ArtifactError(f"the model's file lacks the weight '{min(missing)}'")


def _shapes(
    description: ModelDescription, classifier: nn.Module | None
) -> dict[str, tuple[int, ...]]:
    """List the shapes of all weights a description leads to, allocating none of them."""
    operators = description.operators
    square = (operators.n_operators, operators.dimension, operators.dimension)
    try:
        with torch.device("meta"):
            networks = _networks(description, classifier)
    except (TypeError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise ArtifactError(f"the model's description cannot be built: {first}") from None
    shapes: dict[str, tuple[int, ...]] = {"operators.weight": square}
    for prefix, network in networks.items():
        if isinstance(network, nn.Module):
            for name, value in network.state_dict().items():
                shapes[f"{prefix}.{name}"] = tuple(value.shape)
    return shapes
