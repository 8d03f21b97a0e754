"""Modules of the user's own, named in the settings as ``module:function``."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from transop.config import AutoencoderSettings
from transop.data import ImageDataset, spread_out
from transop.errors import ArtifactError, SettingsError, show
from transop.files import require_regular
from transop.model import ManifoldAutoencoder
from transop.networks.modules import Call
from transop.training.session import Session

_EXAMPLES = 2_000  # training images on which principal directions are found


def run_factory(setting: str, name: str, wanted: str) -> Any:
    """Call the user's ``module:function``; messages name the setting and what is wanted."""
    try:
        return resolve_name(name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{setting} = '{name}' could not be called ({error}); give module:function, "
            f"where the function takes no arguments and returns {wanted}"
        ) from None


def load_weights(module: nn.Module, setting: str, weights: str) -> None:
    """Load a safetensors file into the user's module."""
    try:
        require_regular(weights)
        module.load_state_dict(load_file(Path(weights)))
    except (OSError, SafetensorError) as error:
        raise ArtifactError(
            f"{setting} = '{weights}' is not a readable safetensors file: {error}"
        ) from None
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise ArtifactError(f"{setting} = '{weights}' does not fit the module: {first}") from None


def own_modules(settings: AutoencoderSettings) -> tuple[Call, Call | None]:
    """Build encoder and decoder by ``autoencoder.factory``, with ``autoencoder.weights``.

    The function returns encoder and decoder (which may be None), or one module that has both as
    attributes, or an encoder alone.
    """
    assert settings.factory is not None
    setting = "autoencoder.factory"
    made = run_factory(setting, settings.factory, "an encoder and a decoder")
    pair = made
    if not isinstance(made, tuple):
        pair = (getattr(made, "encoder", made), getattr(made, "decoder", None))
    if len(pair) != 2 or not callable(pair[0]) or not (pair[1] is None or callable(pair[1])):
        raise SettingsError(
            f"{setting} = '{settings.factory}' returned {show(made)}; return (encoder, decoder), "
            "where the decoder may be None"
        )
    if settings.weights is not None:
        parts = {"encoder": pair[0], "decoder": pair[1]}
        modules = {key: part for key, part in parts.items() if isinstance(part, nn.Module)}
        whole = made if isinstance(made, nn.Module) else nn.ModuleDict(modules)
        load_weights(whole, "autoencoder.weights", settings.weights)
    return pair[0], pair[1]


def build_own_model(session: Session, dataset: ImageDataset) -> ManifoldAutoencoder:
    """Build a model around the modules of ``autoencoder.factory``, with placeholder operators.

    Operators act on ``autoencoder.latent_dimension`` principal directions of its latents, or on
    all of them if they have fewer.
    """
    settings = session.settings
    encoder, decoder = own_modules(settings.autoencoder)
    images = dataset.batch(spread_out(dataset.splits["train"], _EXAMPLES), device=session.device)
    for module in (encoder, decoder):
        if isinstance(module, nn.Module):
            module.to(session.device).eval()
    model = ManifoldAutoencoder.from_modules(
        encoder,
        decoder,
        images=images,
        dimension=settings.autoencoder.latent_dimension,
        frozen=settings.fine_tuning.epochs == 0,
    )
    wants_scales = settings.classifier.epochs > 0 and settings.coefficient_encoder.epochs > 0
    if decoder is None and settings.classifier.domain == "image" and wants_scales:
        raise SettingsError(
            "classifier.domain = 'image', but the autoencoder has no decoder to show it moved "
            "points; set classifier.domain = 'latent'"
        )
    return model
