"""What happens between images and latents, and along the operators, once a model is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.errors import UserError
from transop.inference import InferenceResult, infer_coefficients
from transop.inputs import (
    as_batch,
    check_choice,
    check_coefficients,
    check_images,
    check_kind,
    check_latents,
    check_names,
    check_number,
    check_tensor,
    check_times,
)
from transop.networks import Autoencoder, CoefficientEncoder, ModuleAutoencoder, in_chunks
from transop.operators import TransportOperators, transport, transport_path

Domain = Literal["image", "latent"]


class LatentModel(nn.Module):
    """An autoencoder whose latent space carries transport operators, and its classifier.

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
        classifier: decides what counts as the same identity, or None.
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
        positive = "a positive number"
        self.latent_scale = check_number("latent_scale", latent_scale, positive, open=True)
        self.sparsity_weight = check_number("sparsity_weight", sparsity_weight, "0 or more")
        self.prior_scale = check_number("prior_scale", prior_scale, positive, open=True)
        self.coefficient_encoder = coefficient_encoder
        self.classifier = classifier
        self.classifier_domain: Domain = classifier_domain
        self.classifier_recipe = classifier_recipe
        self.phases = check_names("phases", phases)
        self.class_names = None if class_names is None else check_names("class_names", class_names)
        self.identity_facts = identity_facts
        self._remembered: tuple[Tensor, Tensor] | None = None
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
        """Channels, height and width of one image; modules of your own may take other shapes."""
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
        # Training may still change the scale and the origin of latents, so neither is kept here.
        self._remembered = (self.encode(batch) * self.latent_scale - self._origin, batch)

    @property
    def _origin(self) -> Tensor | float:
        origin: Tensor | float = getattr(self.autoencoder, "origin", 0.0)
        return origin

    def _nearest(self, points: Float[Tensor, "b d"]) -> Float[Tensor, "b ..."]:
        if self._remembered is None:
            raise UserError(
                "this model has no decoder and knows no images to show instead; pass decoder= to "
                "from_modules, or images to model.remember(...)"
            )
        raw, images = self._remembered
        places = (raw.to(points) + self._origin) / self.latent_scale
        return images[torch.cdist(points, places).argmin(1).to(images.device)]

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
        frames = self.decode(points, rest=None if rest is None else as_batch(rest)[:, None])
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

    def scales_at(self, latents: Float[Tensor, "*b d"]) -> Float[Tensor, "*b m"]:
        """Say how far each operator may go at a latent point in scaled units."""
        if self.coefficient_encoder is None:
            raise UserError(
                "this model has no coefficient encoder; train the phase 'coefficient_encoder', "
                f"or sample with the fixed prior_scale = {self.prior_scale:g}"
            )
        points = self._check_latents(latents)
        with self._evaluating(False):
            scales: Tensor = self.coefficient_encoder(points)
        return scales

    def classify(self, images: Any) -> Float[Tensor, "*b_k"]:
        """Give the class logits of images: (*b, k), or (*b, k, 2) for k attributes."""
        batch, single = self.check_images(images)
        classifier = self._own_classifier()
        with self._evaluating(False):
            inputs = batch if self.classifier_domain == "image" else self.encode(batch)
            logits = in_chunks(classifier, inputs)
        return logits[0] if single else logits

    def classify_latents(
        self, latents: Float[Tensor, "*b d"], *, gradients: bool = False
    ) -> Float[Tensor, "*b_k"]:
        """Give the class logits of latent points, decoded first if the classifier reads images."""
        points = self._check_latents(latents)
        classifier, inputs = self._own_classifier(), points.reshape(-1, self.latent_dimension)
        if self.classifier_domain == "image":
            inputs = self.decode(inputs, gradients=gradients)
        with self._evaluating(gradients):
            logits = in_chunks(classifier, inputs)
        return logits.reshape(*points.shape[:-1], *logits.shape[1:])

    def attributes_at(self, latents: Float[Tensor, "*b d"]) -> Float[Tensor, "*b k"]:
        """Give the probability of every attribute at latent points, decoded first."""
        if self.attribute_names is None:
            raise UserError(
                "this model's classifier tells no attributes; train the phase 'classifier' with "
                "classifier.network = 'attributes'"
            )
        return self.classify_latents(latents).softmax(-1)[..., 1]

    def _check_latents(self, latents: Any) -> Float[Tensor, "*b d"]:
        return check_latents(latents, self.latent_dimension, self.operators.weight)

    def _own_classifier(self) -> nn.Module:
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
        """Bring images to the device as a batch, and say whether it was a single image.

        ``values`` looks at the values too, which costs a pass over them and cannot be compiled.
        """
        bounded = not isinstance(self.autoencoder, ModuleAutoencoder)
        weight = self.operators.weight
        return check_images(images, self.image_shape, weight, values=values, bounded=bounded)
