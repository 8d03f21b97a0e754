"""ManifoldAutoencoder: what a user holds, saves and loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.description import check_description
from transop.errors import ArtifactError, UserError
from transop.inference import InferenceResult, infer_coefficients
from transop.inputs import (
    as_batch,
    check_callable,
    check_choice,
    check_coefficients,
    check_device,
    check_flag,
    check_floats,
    check_images,
    check_kind,
    check_latents,
    check_names,
    check_number,
    check_path,
    check_tensor,
    check_times,
    check_whole,
)
from transop.networks import (
    Autoencoder,
    CoefficientEncoder,
    ModuleAutoencoder,
    ModulesShape,
    in_chunks,
    make_autoencoder,
    prefer_channels_last,
)
from transop.networks.modules import Call
from transop.operators import TransportOperators, transport, transport_path
from transop.parts import OwnModules, build_parts, check_shapes
from transop.pretrained import read_pretrained, upload, write_pretrained

Domain = Literal["image", "latent"]


class ManifoldAutoencoder(nn.Module):
    """An autoencoder whose latent space carries learned transport operators.

    Latent points are in scaled units (raw latents divided by ``latent_scale``) wherever they
    come in or go out. Images are floats in [0, 1], one (c, h, w) or a batch (b, c, h, w). The
    methods run the networks in evaluation mode and without gradients unless asked for them.

    Attributes:
        autoencoder: encoder and decoder, in raw latent units.
        operators: the dictionary Psi.
        latent_scale: divides raw latents.
        sparsity_weight: zeta of [OBJECTIVE] with which the operators were learned.
        prior_scale: scale of the Laplace prior, where there is no coefficient encoder.
        coefficient_encoder: gives every operator's scale at a point, or None.
        classifier: the judge of identity, or None.
        classifier_domain: whether it reads images or scaled latents.
        classifier_recipe: name and numbers that build the classifier again, or None.
        phases: the training phases this model has been through.
        class_names: what the classes are called, or None.
        identity_facts: whose opinion the classifier's is (labels, the user's own, or groups of
            the neighbour graph), as `transop.identity.Identity` stores it; None without one.
    """

    def __init__(
        self,
        autoencoder: Autoencoder,
        operators: TransportOperators,
        *,
        latent_scale: float = 1.0,
        sparsity_weight: float = 0.05,
        prior_scale: float = 0.1,
        coefficient_encoder: CoefficientEncoder | None = None,
        classifier: nn.Module | None = None,
        classifier_domain: Domain = "image",
        classifier_recipe: dict[str, Any] | None = None,
        phases: Sequence[str] = (),
        class_names: Sequence[str] | None = None,
        identity_facts: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_kind("autoencoder", autoencoder, Autoencoder)
        check_kind("operators", operators, TransportOperators)
        check_kind("coefficient_encoder", coefficient_encoder, CoefficientEncoder, optional=True)
        check_kind("classifier", classifier, nn.Module, optional=True)
        check_kind("classifier_recipe", classifier_recipe, dict, optional=True)
        check_choice("classifier_domain", classifier_domain, ("image", "latent"))
        if operators.dimension != autoencoder.shape.latent_dimension:
            raise UserError(
                f"operators act on {operators.dimension} dimensions but the autoencoder has "
                f"{autoencoder.shape.latent_dimension}; build both with the same number"
            )
        self.autoencoder = autoencoder
        self.operators = operators
        self.latent_scale = check_number(
            "latent_scale", latent_scale, "a positive number", open=True
        )
        self.sparsity_weight = check_number(
            "sparsity_weight", sparsity_weight, "a number from 0 on"
        )
        self.prior_scale = check_number("prior_scale", prior_scale, "a positive number", open=True)
        self.coefficient_encoder = coefficient_encoder
        self.classifier = classifier
        self.classifier_domain: Domain = classifier_domain
        self.classifier_recipe = classifier_recipe
        self.phases = check_names("phases", phases)
        self.class_names = None if class_names is None else check_names("class_names", class_names)
        self.identity_facts = identity_facts
        self._remembered: tuple[Tensor, Tensor] | None = None
        self._unseen: dict[str, Any] | None = None  # own modules that have seen no image yet
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are; inputs are brought there."""
        return self.operators.weight.device

    @property
    def attribute_names(self) -> tuple[str, ...] | None:
        """What the classifier's attributes are called; None if it names one class instead."""
        names: tuple[str, ...] | None = getattr(self.classifier, "attribute_names", None)
        return names

    @property
    def names_classes(self) -> bool:
        """Whether there is a classifier that gives an image one name."""
        return self.classifier is not None and self.attribute_names is None

    @property
    def latent_dimension(self) -> int:
        """Number of latent dimensions, d."""
        return self.operators.dimension

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of one image: channels, height, width; modules of your own may take others."""
        return self.autoencoder.image_shape

    def forward(self, images: Any) -> Float[Tensor, "*b c h w"]:
        """Reconstruct images as a torch module does: in its own mode, recording gradients."""
        batch, single = self.check_images(images)
        decoded: Tensor = self.autoencoder(batch)
        return decoded[0] if single else decoded

    def encode(self, images: Any, *, gradients: bool = False) -> Float[Tensor, "*b d"]:
        """Map images to latent points in scaled units.

        Args:
            images: one image or a batch, floats in [0, 1].
            gradients: keep the graph, to differentiate through the encoder.
        """
        batch, single = self.check_images(images)
        with self._evaluating(gradients):
            points = in_chunks(self.autoencoder.encode, batch) / self.latent_scale
        return points[0] if single else points

    def rest(self, images: Any) -> Float[Tensor, "*b w"] | None:
        """Give the part of the latents that operators leave alone; None if they act on all of it.

        Pass it on to `decode` with the moved points, so that it is carried along unchanged.
        """
        batch, single = self.check_images(images)
        if not self.carries_rest:
            return None
        with self._evaluating(False):
            rest = in_chunks(self._rest_of, batch)
        return rest[0] if single else rest

    def decode(
        self,
        latents: Float[Tensor, "*b d"],
        *,
        rest: Float[Tensor, "*b w"] | None = None,
        gradients: bool = False,
    ) -> Float[Tensor, "*b c h w"]:
        """Map latent points in scaled units to images; any leading axes are kept.

        Without a decoder it shows the nearest of the images that `remember` was given.

        Args:
            latents: the points.
            rest: what `rest` gave for their images; the average if left out.
            gradients: keep the graph, to differentiate through the decoder.
        """
        points = self._check_latents(latents)
        leading = points.shape[:-1]
        flat = points.reshape(-1, self.latent_dimension)
        if not self.autoencoder.has_decoder:
            return self._nearest(flat).reshape(*leading, *self.image_shape)
        with self._evaluating(gradients):
            raw = flat * self.latent_scale
            if rest is None:
                images = in_chunks(self.autoencoder.decode, raw)
            else:
                carried = check_tensor("rest", rest).to(raw)
                carried = carried.expand(*leading, carried.shape[-1]).reshape(len(raw), -1)
                images = in_chunks(self._decode_with_rest, torch.cat([raw, carried], 1))
        return images.reshape(*leading, *self.image_shape)

    def reconstruct(self, images: Any) -> Float[Tensor, "*b c h w"]:
        """Encode and decode."""
        return self.decode(self.encode(images), rest=self.rest(images))

    @property
    def carries_rest(self) -> bool:
        """Whether operators act on a part of the latents only."""
        return getattr(self.autoencoder, "principal", None) is not None

    def _rest_of(self, images: Tensor) -> Tensor:
        rest = self.autoencoder.rest(images)
        assert rest is not None
        return rest

    def _decode_with_rest(self, both: Tensor) -> Tensor:
        d = self.latent_dimension
        return self.autoencoder.decode(both[:, :d], both[:, d:])

    def remember(self, images: Any) -> None:
        """Keep images to show where there is no decoder: each point shows the nearest of them.

        Args:
            images: a batch, usually the training images; they are not stored with the model.
        """
        batch, _ = self.check_images(images)
        self._remembered = (self.encode(batch), batch)

    def _nearest(self, points: Float[Tensor, "b d"]) -> Float[Tensor, "b ..."]:
        if self._remembered is None:
            raise UserError(
                "this model has no decoder and knows no images to show instead; pass decoder= to "
                "from_modules, or images to model.remember(...)"
            )
        places, images = self._remembered
        return images[torch.cdist(points, places).argmin(1)]

    def transport(
        self,
        coefficients: Float[Tensor, "*#b m"],
        latents: Float[Tensor, "*#b d"],
        *,
        gradients: bool = False,
    ) -> Float[Tensor, "*b d"]:
        """Carry latent points along the flow: [TRANSPORT]  expm(sum_m c_m Psi_m) z."""
        points = self._check_latents(latents)
        with torch.set_grad_enabled(gradients):
            chosen = check_coefficients(coefficients, self.operators.n_operators, points)
            return transport(self.operators.operators, chosen, points)

    def infer(
        self, start: Any, end: Any, *, sparsity_weight: float | None = None, **options: Any
    ) -> InferenceResult:
        """Find the sparse coefficients that carry one image to another, pair by pair.

        Args:
            start: x0, one image or a batch.
            end: x1, as many.
            sparsity_weight: zeta; the one the operators were learned with if not given.
            **options: passed on to ``infer_coefficients``, such as ``solver`` or ``restarts``.

        Returns:
            Coefficients and evidence with one row per pair; a single pair is one row.
        """
        z0, z1 = (as_batch(self.encode(images)) for images in (start, end))
        return self.infer_latents(z0, z1, sparsity_weight=sparsity_weight, **options)

    def infer_latents(
        self,
        z0: Float[Tensor, "b d"],
        z1: Float[Tensor, "_ d"],
        *,
        sparsity_weight: float | None = None,
        **options: Any,
    ) -> InferenceResult:
        """Find the sparse coefficients that carry one latent point to another, pair by pair."""
        z0, z1 = self._check_latents(z0), self._check_latents(z1)
        if z0.shape != z1.shape:
            raise UserError(f"there are {len(z0)} starts but {len(z1)} ends; pass as many of each")
        weight = self.sparsity_weight if sparsity_weight is None else sparsity_weight
        dictionary = self.operators.operators.detach()
        return infer_coefficients(dictionary, z0, z1, sparsity_weight=weight, **options)

    def path(
        self,
        start: Any,
        end: Any,
        t: Sequence[float | int] | Float[Tensor, " t"] = (0.0, 0.25, 0.5, 0.75, 1.0),
        **options: Any,
    ) -> Float[Tensor, "*b t c h w"]:
        """Decode images along the inferred path; beyond 1 it extrapolates.

        Args:
            start: x0, one image or a batch.
            end: x1, as many.
            t: where on the path; 0 is x0's reconstruction, 1 the point closest to x1.
            **options: passed on to ``infer``.
        """
        z0, z1 = self.encode(start), self.encode(end)
        points = self.latent_path(as_batch(z0), as_batch(z1), check_times(t, z0), **options)
        rest = self.rest(start)
        rest = None if rest is None else as_batch(rest)[:, None]
        frames = self.decode(points, rest=rest)
        return frames[0] if z0.ndim == 1 else frames

    def latent_path(
        self,
        z0: Float[Tensor, "b d"],
        z1: Float[Tensor, "b d"],
        times: Float[Tensor, " t"],
        **options: Any,
    ) -> Float[Tensor, "b t d"]:
        """Follow the inferred path: at z0 for t = 0, near z1 for t = 1, beyond it after."""
        start = self._check_latents(z0)
        coefficients = self.infer_latents(start, z1, **options).coefficients
        places = check_times(times, start)
        with torch.no_grad():
            return transport_path(self.operators.operators, coefficients, start, places)

    def coefficient_scales(self, images: Any) -> Float[Tensor, "*b m"]:
        """Say how far each operator may go at an image before its identity changes."""
        return self.scales_at(self.encode(images))

    def scales_at(
        self, latents: Float[Tensor, "*b d"], *, gradients: bool = False
    ) -> Float[Tensor, "*b m"]:
        """Say how far each operator may go at a latent point in scaled units."""
        if self.coefficient_encoder is None:
            raise UserError(
                "this model has no coefficient encoder; train the phase 'coefficient_encoder', "
                f"or sample with the fixed prior_scale = {self.prior_scale:g}"
            )
        points = self._check_latents(latents)
        with self._evaluating(gradients):
            scales: Tensor = self.coefficient_encoder(points)
        return scales

    def classify(self, images: Any) -> Float[Tensor, "*b_k"]:
        """Give the class logits of images: (*b, k), or (*b, k, 2) for k attributes."""
        batch, single = self.check_images(images)
        judge = self._judge()
        with self._evaluating(False):
            inputs = batch if self.classifier_domain == "image" else self.encode(batch)
            logits = in_chunks(judge, inputs)
        return logits[0] if single else logits

    def classify_latents(
        self, latents: Float[Tensor, "*b d"], *, gradients: bool = False
    ) -> Float[Tensor, "*b_k"]:
        """Give the class logits of latent points, decoded first if the classifier reads images."""
        points = self._check_latents(latents)
        judge, flat = self._judge(), points.reshape(-1, self.latent_dimension)
        inputs = flat
        if self.classifier_domain == "image":
            inputs = self.decode(flat, gradients=gradients)
        with self._evaluating(gradients):
            logits = in_chunks(judge, inputs)
        return logits.reshape(*points.shape[:-1], *logits.shape[1:])

    def attributes_at(self, latents: Float[Tensor, "*b d"]) -> Float[Tensor, "*b k"]:
        """Give the probability of every attribute at latent points, decoded first."""
        if self.attribute_names is None:
            raise UserError(
                "this model's classifier tells no attributes; train the phase 'classifier' with "
                "classifier.network = 'attributes'"
            )
        return self.classify_latents(latents).softmax(-1)[..., 1]

    def config(self) -> dict[str, Any]:
        """Describe everything but the weights, by names and numbers."""
        encoder = self.coefficient_encoder
        return {
            "autoencoder": self.autoencoder.architecture(),
            "operators": {
                "n_operators": self.operators.n_operators,
                "dimension": self.operators.dimension,
                "n_blocks": self.operators.n_blocks,
            },
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
        write_pretrained(
            check_path("folder", folder), self._checked_config(), dict(self.state_dict())
        )

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

        def inspect(config: dict[str, Any], weights: dict[str, Tensor]) -> None:
            check_shapes(check_description(config, f"'{folder}'"), weights, given)

        config, weights, origin = read_pretrained(folder, inspect)
        description = check_description(config, f"'{origin}'")
        try:
            model = cls(
                **build_parts(description, given),
                **description.numbers(),
                classifier_recipe=config["classifier"],
            )
            prefer_channels_last(model)
            model._load_weights(weights)
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
        options = {
            "n_operators": check_whole("n_operators", n_operators, least=0),
            "dimension": None
            if dimension is None
            else check_whole("dimension", dimension, least=1),
            "explained": check_number("explained", explained, "a share, from 0 to 1", high=1),
            "frozen": check_flag("frozen", frozen),
        }
        unseen = ModulesShape((1,), (1,), 1, decoder is not None)
        check_callable("encoder", encoder)
        check_callable("decoder", decoder, optional=True)
        network = ModuleAutoencoder(unseen, encoder, decoder, frozen=frozen)
        model = cls(network, TransportOperators(1, 1))
        model.to(check_device(device) if device is not None else _device_of(network))
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
        lengths = torch.linalg.vector_norm(self.encode(batch), dim=-1)
        mean = float(lengths.mean())
        self.latent_scale = mean if mean > 0 else 1.0
        if not network.has_decoder:
            self.remember(batch)

    def _checked_config(self) -> dict[str, Any]:
        """Describe the model, or say what could not be read back."""
        config = self.config()
        check_description(config, "this model cannot be stored: it")
        return config

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        if self.classifier is None:
            weights = {k: v for k, v in weights.items() if not k.startswith("classifier.")}
        self.load_state_dict(weights)

    def _check_latents(self, latents: Any) -> Float[Tensor, "*b d"]:
        return check_latents(latents, self.latent_dimension, self.operators.weight)

    def _judge(self) -> nn.Module:
        if self.classifier is None:
            raise UserError("this model has no classifier; train the phase 'classifier'")
        return self.classifier

    @contextmanager
    def _evaluating(self, gradients: bool) -> Iterator[None]:
        """Switch to evaluation mode, with or without gradients, and back afterwards."""
        training = [module for module in self.modules() if module.training]
        self.eval()
        try:
            with torch.set_grad_enabled(gradients):
                yield
        finally:
            for module in training:
                module.training = True

    def check_images(
        self, images: Any, *, values: bool = True
    ) -> tuple[Float[Tensor, "b c h w"], bool]:
        """Bring images to the device as a batch, or say what is wrong with them.

        Args:
            images: one image or a batch, floats in [0, 1].
            values: look at the values too, which costs a pass over them and cannot be compiled.

        Returns:
            The batch, and whether it was a single image.
        """
        if self._unseen is not None:
            self._see(images)
        own = isinstance(self.autoencoder, ModuleAutoencoder)
        return check_images(
            images, self.image_shape, self.operators.weight, values=values, bounded=not own
        )


def _device_of(module: nn.Module) -> torch.device:
    """Say where a module's weights are, which must be one place; the CPU if it has none."""
    places = sorted({str(weight.device) for weight in module.parameters()})
    if len(places) > 1 or "meta" in places:
        raise UserError(
            f"the modules are on {' and '.join(places)}; bring them to one device that holds "
            "values, or pass device= to from_modules"
        )
    return torch.device(places[0] if places else "cpu")
