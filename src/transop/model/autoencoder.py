"""ManifoldAutoencoder: what a user holds, makes of modules, saves and loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.artifacts.description import check_description
from transop.artifacts.pretrained import read_pretrained, upload, write_pretrained
from transop.errors import ArtifactError, UserError
from transop.inputs import (
    check_callable,
    check_device,
    check_flag,
    check_floats,
    check_kind,
    check_number,
    check_path,
    check_tensor,
    check_whole,
)
from transop.model.latent import LatentModel
from transop.model.parts import OwnModules, build_parts, check_shapes
from transop.networks import ModuleAutoencoder, prefer_channels_last
from transop.networks.modules import Call, make_autoencoder
from transop.operators import TransportOperators


class ManifoldAutoencoder(LatentModel):
    """A model of images and their transformations, as users hold it.

    Train one with ``transop.fit``, load one with `from_pretrained`, or build one around your own
    networks with `from_modules`. Everything it does with images and latents is described at
    `LatentModel`.
    """

    _unseen: dict[str, Any] | None = None  # own modules that have seen no image yet

    def check_images(
        self, images: Any, *, values: bool = True
    ) -> tuple[Float[Tensor, "b ..."], bool]:
        """Bring images to the device as a batch; the first ones tell what own modules take."""
        if self._unseen is not None:
            self._see(images)
        return super().check_images(images, values=values)

    def config(self) -> dict[str, Any]:
        """Describe everything but the weights, by names and numbers."""
        encoder = self.coefficient_encoder
        sizes = ("n_operators", "dimension", "n_blocks")
        return {
            "autoencoder": self.autoencoder.architecture(),
            "operators": {name: getattr(self.operators, name) for name in sizes},
            "latent_scale": self.latent_scale,
            "sparsity_weight": self.sparsity_weight,
            "prior_scale": self.prior_scale,
            "coefficient_encoder": None if encoder is None else encoder.architecture(),
            "classifier": self.classifier_recipe if self.classifier is not None else None,
            "classifier_domain": self.classifier_domain,
            "phases": list(self.phases),
            "class_names": None if self.class_names is None else list(self.class_names),
            "identity": self.identity_facts,
        }

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` and ``config.json`` into a folder, each in one step."""
        path = check_path("folder", folder)
        write_pretrained(path, self._checked_config(), dict(self.state_dict()))

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the model to ``owner/name`` on the Hugging Face hub and give its address."""
        return upload(name, self._checked_config(), dict(self.state_dict()), **options)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: torch.device | str | None = None,
        classifier: nn.Module | None = None,
        encoder: Call | None = None,
        decoder: Call | None = None,
    ) -> ManifoldAutoencoder:
        """Load a model from a folder, a run, or ``owner/name`` on the Hugging Face hub.

        Nothing in the files is executed. Modules of the user's own must therefore be passed in;
        their weights are then loaded into them.

        Args:
            folder: where ``save_pretrained`` wrote, or a hub name (needs the extra ``hub``).
            device: where the model goes; the CPU if not given.
            classifier: an untrained copy of a classifier that transop does not know by name.
            encoder: the encoder of a model that was made by ``from_modules``.
            decoder: its decoder, if it had one.
        """
        check_kind("classifier", classifier, nn.Module, optional=True)
        given = OwnModules(classifier, encoder, decoder)
        place = None if device is None else check_device(device)
        config, weights, origin = read_pretrained(folder)
        description = check_description(config, f"'{origin}'")
        check_shapes(description, weights, given)
        try:
            numbers = {**description.numbers(), "classifier_recipe": config["classifier"]}
            model = cls(**build_parts(description, given), **numbers)
            prefer_channels_last(model)
            if model.classifier is None:
                weights = {k: v for k, v in weights.items() if not k.startswith("classifier.")}
            model.load_state_dict(weights)
        except (TypeError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[-1].strip()
            raise ArtifactError(f"'{origin}' does not fit its description: {first}") from None
        return model.to(place) if place is not None else model

    @classmethod
    def from_modules(
        cls,
        encoder: Call,
        decoder: Call | None = None,
        *,
        images: Any = None,
        n_operators: int = 16,
        dimension: int | None = None,
        explained: float = 0.95,
        frozen: bool = True,
        device: torch.device | str | None = None,
    ) -> ManifoldAutoencoder:
        """Build a model around modules or functions of your own, with untrained operators.

        Latents of any shape are flattened. Operators act on the whole latent up to 128 dimensions,
        and on the principal directions of larger ones; the rest is carried along unchanged. Learn
        operators with ``transop.learn_operators`` on encoded pairs and hand them to
        `set_operators`.

        Args:
            encoder: inputs (b, ...) to latents (b, ...).
            decoder: latents to inputs; without one, pictures show the nearest image.
            images: examples of the inputs, which say what shapes the modules take; the first
                images that are encoded, if left out. Latents of more than 128 dimensions need
                them, better a thousand.
            n_operators: how many operators.
            dimension: how many principal directions; by ``explained`` if left out.
            explained: share of the variance that they must cover, with at most 128.
            frozen: keep the modules' weights as they are.
            device: where the modules go; they stay where they are if left out.
        """
        if dimension is not None:
            dimension = check_whole("dimension", dimension, least=1)
        options = {
            "n_operators": check_whole("n_operators", n_operators, least=0),
            "dimension": dimension,
            "explained": check_number("explained", explained, "a share, from 0 to 1", high=1),
            "frozen": check_flag("frozen", frozen),
        }
        check_callable("encoder", encoder, n_arguments=1)
        check_callable("decoder", decoder, n_arguments=1, optional=True)
        network = ModuleAutoencoder((1,), (1,), encoder, decoder, frozen=frozen)  # not seen yet
        model = cls(network, TransportOperators(1, 1))
        model.to(_device_of(network, None if device is None else check_device(device)))
        model._unseen = {"encoder": encoder, "decoder": decoder, **options}
        if images is not None:
            model._see(images)
        return model

    def set_operators(
        self, operators: Float[Tensor, "m d d"], *, sparsity_weight: float | None = None
    ) -> None:
        """Take over operators that were learned on this model's latents.

        Args:
            operators: the dictionary Psi, such as ``learn_operators(...).operators``.
            sparsity_weight: the weight to infer with; the one in force if left out.
        """
        learned = check_floats("operators", operators)
        d = self.latent_dimension
        if learned.ndim != 3 or tuple(learned.shape[1:]) != (d, d):
            raise UserError(
                f"operators have shape {tuple(learned.shape)}; this model takes (number, {d}, {d})"
            )
        if not bool(learned.isfinite().all()):
            raise UserError("operators hold NaN or infinity; learn them again")
        dictionary = TransportOperators(len(learned), d).to(self.device)
        with torch.no_grad():
            dictionary.weight.copy_(learned)
        self.operators, self.coefficient_encoder = dictionary, None
        if sparsity_weight is not None:
            self.sparsity_weight = check_number(
                "sparsity_weight", sparsity_weight, "a number from 0 on"
            )
        self.phases = tuple(dict.fromkeys((*self.phases, "operators")))

    def _see(self, images: Any) -> None:
        """Find out from examples what the user's modules take and give."""
        assert self._unseen is not None
        batch = check_tensor("images", images)
        if not batch.is_floating_point() or batch.ndim < 2 or len(batch) == 0:
            raise UserError(
                f"images have type {batch.dtype} and shape {tuple(batch.shape)}; pass a batch of "
                "floats, one input for each row"
            )
        if not bool(batch.isfinite().all()):
            raise UserError("images hold NaN or infinity; remove them first")
        options = dict(self._unseen)
        n_operators = options.pop("n_operators")
        batch = batch.to(self.device, self.operators.weight.dtype)
        network = make_autoencoder(images=batch, **options)
        self._unseen = None
        self.autoencoder = network
        self.operators = TransportOperators(n_operators, network.shape.latent_dimension)
        self.to(batch.device)
        mean = float(torch.linalg.vector_norm(self.encode(batch), dim=-1).mean())
        self.latent_scale = mean if mean > 0 else 1.0
        if not network.has_decoder:
            self.remember(batch)

    def _checked_config(self) -> dict[str, Any]:
        """Describe the model, or say what could not be read back."""
        config = self.config()
        check_description(config, "this model cannot be stored: it")
        return config


def _device_of(network: ModuleAutoencoder, wanted: torch.device | None) -> torch.device:
    """Say where the user's modules go: one place that holds values; the CPU if they hold none."""
    parts = [part for part in (network.encoder, network.decoder) if part is not None]
    held = [tensor for part in parts for tensor in (*part.parameters(), *part.buffers())]
    places = sorted({str(tensor.device) for tensor in held})
    if "meta" in places:
        raise UserError(
            f"the modules are on {' and '.join(places)}; 'meta' holds no values, so load their "
            "weights first"
        )
    if wanted is None and len(places) > 1:
        raise UserError(
            f"the modules are on {' and '.join(places)}; bring them to one device, or pass device= "
            "to from_modules"
        )
    return wanted or torch.device(places[0] if places else "cpu")
