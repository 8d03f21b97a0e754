"""Build the modules that a stored model's description names, and check its weights beforehand."""

from __future__ import annotations

import logging
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transop.artifacts.description import (
    FactoryDescription,
    ModelDescription,
    ModulesDescription,
    NetworkDescription,
)
from transop.errors import ArtifactError
from transop.networks import (
    Autoencoder,
    CoefficientEncoder,
    ModuleAutoencoder,
    PrincipalDirections,
    build_autoencoder,
    build_classifier,
)
from transop.networks.modules import Call
from transop.operators import TransportOperators

logger = logging.getLogger(__name__)


class OwnModules(NamedTuple):
    """The user's own modules, which a file never imports."""

    classifier: nn.Module | None = None  # decides what counts as the same
    encoder: Call | None = None  # inputs to latents
    decoder: Call | None = None  # latents to inputs


def build_parts(description: ModelDescription, given: OwnModules) -> dict[str, Any]:
    """Build every module of a model from its description, and take the user's own as given."""
    known = description.classifier
    if isinstance(known, FactoryDescription) and given.classifier is None:
        logger.warning(
            "the model's classifier was built by %s; pass classifier= to load it", known.factory
        )
    networks = _networks(description, given)
    return {**networks, "operators": TransportOperators(**description.operators.model_dump())}


def _networks(description: ModelDescription, given: OwnModules) -> dict[str, nn.Module | None]:
    encoder, known = description.coefficient_encoder, description.classifier
    classifier = given.classifier
    if known is not None and classifier is None and not isinstance(known, FactoryDescription):
        classifier = build_classifier(known.network, **known.numbers.model_dump(exclude_none=True))
    return {
        "autoencoder": _autoencoder(description.autoencoder, given),
        "coefficient_encoder": CoefficientEncoder(**encoder.model_dump()) if encoder else None,
        "classifier": None if known is None else classifier,
    }


def _autoencoder(
    description: NetworkDescription | ModulesDescription, given: OwnModules
) -> Autoencoder:
    """Build one of our own autoencoders, or put the user's modules together again."""
    if isinstance(description, NetworkDescription):
        return build_autoencoder(**description.model_dump())
    if given.encoder is None or (given.decoder is None) == description.has_decoder:
        wanted = "encoder= and decoder=" if description.has_decoder else "encoder= and no decoder="
        raise ArtifactError(f"the model's autoencoder is your own, pass {wanted} to load it")
    principal = None
    if description.explained is not None:
        width = prod(description.latent_shape)
        principal = PrincipalDirections(description.latent_dimension, width, description.explained)
    return ModuleAutoencoder(
        tuple(description.image_shape),
        tuple(description.latent_shape),
        given.encoder,
        given.decoder,
        principal,
        frozen=description.frozen,
    )


def check_shapes(
    description: ModelDescription, weights: dict[str, Tensor], given: OwnModules
) -> None:
    """Refuse weights that a description does not lead to, before anything is built from it."""
    expected = _shapes(description, given)
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


def _shapes(description: ModelDescription, given: OwnModules) -> dict[str, tuple[int, ...]]:
    """List the shapes of all weights a description leads to, allocating none of them."""
    operators = description.operators
    square = (operators.n_operators, operators.dimension, operators.dimension)
    try:
        with torch.device("meta"):
            networks = _networks(description, given)
    except ArtifactError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise ArtifactError(f"the model's description cannot be built: {first}") from None
    shapes: dict[str, tuple[int, ...]] = {"operators.weight": square}
    for prefix, network in networks.items():
        weights = {} if network is None else network.state_dict()
        shapes |= {f"{prefix}.{name}": tuple(value.shape) for name, value in weights.items()}
    return shapes
