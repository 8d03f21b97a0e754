"""Encoders, decoders, classifiers and the coefficient encoder: plain modules, no training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from transop.extras import plugged_in
from transop.inputs import check_choice, check_whole
from transop.networks.autoencoder import (
    Autoencoder,
    AutoencoderBuilder,
    AutoencoderShape,
    celeba,
    conv,
    conv32,
    deep,
    mnist,
)
from transop.networks.classifiers import CoefficientEncoder, LatentClassifier, LeNet
from transop.networks.efficientnet_lite import load_published_weights
from transop.networks.folded import FoldedAutoencoder, in_chunks
from transop.networks.modules import ModuleAutoencoder, PrincipalDirections

__all__ = [
    "AUTOENCODERS",
    "CLASSIFIERS",
    "Autoencoder",
    "AutoencoderShape",
    "ClassifierKind",
    "CoefficientEncoder",
    "FoldedAutoencoder",
    "LatentClassifier",
    "LeNet",
    "ModuleAutoencoder",
    "PrincipalDirections",
    "build_autoencoder",
    "build_classifier",
    "classifier_kinds",
    "in_chunks",
    "load_published_weights",
    "prefer_channels_last",
]

AUTOENCODERS: dict[str, AutoencoderBuilder] = {
    "mnist": mnist,
    "celeba": celeba,
    "conv32": conv32,
    "conv": conv,
    "deep": deep,
}
_FITTING = {28: "mnist", 32: "conv32"}  # for "auto": by image size, "conv" for all others
CLASSIFIERS: dict[str, Callable[..., nn.Module]] = {"lenet": LeNet, "latent-mlp": LatentClassifier}


@dataclass(frozen=True)
class ClassifierKind:
    """A kind of classifier that another package adds: an entry point of ``transop.classifiers``.

    It brings its own training and stands in a model as ours do, under the entry point's name.
    """

    build: Callable[..., nn.Module]  # the network, from the numbers stored with a model
    suits: Callable[..., bool]  # (settings.classifier, dataset): whether to take this kind
    make: Callable[..., tuple[nn.Module, dict[str, Any]]]  # (session, dataset): network, recipe
    train: Callable[..., None]  # (session, network, dataset, model)
    measure: Callable[..., dict[str, Any]]  # (network, dataset): its results, for the metrics


def classifier_kinds() -> dict[str, ClassifierKind]:
    """List the kinds of classifiers that other packages add, by name."""
    return plugged_in("transop.classifiers")


def build_autoencoder(
    name: str, *, image_size: int, channels: int, latent_dimension: int, width: int
) -> Autoencoder:
    """Build an autoencoder by name and numbers.

    Args:
        name: a key of ``AUTOENCODERS``, or ``"auto"`` to choose by image size.
        image_size: side of the square images, in pixels.
        channels: 1 or 3.
        latent_dimension: d.
        width: channels of the first convolution (the paper: 64 for MNIST, 32 for CelebA).
    """
    check_choice("autoencoder", name, ("auto", *AUTOENCODERS))
    shape = AutoencoderShape(
        _FITTING.get(image_size, "conv") if name == "auto" else name,
        check_whole("image_size", image_size, least=1),
        check_whole("channels", channels, least=1),
        check_whole("latent_dimension", latent_dimension, least=1),
        check_whole("width", width, least=1),
    )
    return AUTOENCODERS[shape.name](shape)


def build_classifier(name: str, **numbers: Any) -> nn.Module:
    """Build a classifier by name: ``lenet`` (images), ``latent-mlp`` (latents), or a further kind.

    Args:
        name: a key of ``CLASSIFIERS`` or of `classifier_kinds`.
        **numbers: ``image_size, channels, n_classes`` for ``lenet``;
            ``latent_dimension, n_classes`` for ``latent-mlp``.
    """
    kinds = {} if isinstance(name, str) and name in CLASSIFIERS else classifier_kinds()
    check_choice("classifier", name, (*CLASSIFIERS, *kinds))
    if name in kinds:
        return kinds[name].build(**numbers)
    for argument in ("image_size", "channels", "latent_dimension", "n_classes", "hidden"):
        if argument in numbers:
            numbers[argument] = check_whole(argument, numbers[argument], least=1)
    return CLASSIFIERS[name](**numbers)


def prefer_channels_last(module: nn.Module) -> None:
    """Lay convolution weights out channels-last, in place: a tenth faster on CPUs."""
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
