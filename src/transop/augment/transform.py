"""TransportAugment: random moves along the learned operators, as a drop-in transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transop.augment.dataset import AugmentedDataset
from transop.augment.executor import Executor, Source, choose_source
from transop.augment.guard import Guard, GuardedWalks, check_labels, make_guard, walk_guarded
from transop.augment.start import Params, Start, check_params
from transop.augment.walk import Draws, retrace, walk
from transop.errors import UserError
from transop.inputs import (
    check_flag,
    check_generator,
    check_kind,
    check_latents,
    check_number,
    check_tensor,
    check_whole,
)
from transop.model import ManifoldAutoencoder
from transop.operators import transport

# Terms and steps of the series when the work must not depend on the data. Generators up to norm
# 10, far beyond what keeps identity, are then exponentiated to 1e-8.
_STATIC_TERMS, _STATIC_STEPS = 12, 8


class TransportAugment(nn.Module):
    """Moves images at random along the learned operators, as far as their identity allows.

    Takes floats in [0, 1], one image (c, h, w) or a batch (b, c, h, w), and gives the same shape,
    type and device, in training and in evaluation mode alike; arrays and lists become tensors. No
    gradients flow through it. After a call ``params`` says what was done;
    ``augment(images, params)`` does it again.

    A network that holds an augmentation trains and stores none of its weights: the model and the
    guard's classifier are no submodules. They follow the augmentation to another device.

    Without a ``generator`` it draws from torch's global randomness, which DataLoader workers
    have each their own of; a given generator is combined with the worker's seed there.

    It compiles and exports: the exponential then has a fixed number of terms, values are not
    checked, and a guard is refused in exports because its work depends on the images.

    Attributes:
        params: what the last call did, or None.
    """

    params: Params | None
    model: ManifoldAutoencoder
    guard: Guard | None
    _place: Tensor

    def __init__(
        self,
        model: ManifoldAutoencoder,
        p: float = 1.0,
        *,
        same_on_batch: bool = False,
        source: Source = "auto",
        multiplier: float = 1.0,
        prior_scale: float | None = None,
        n_steps: int = 1,
        guard: Guard | float | None = None,
        residual: float = 0.0,
        bfloat16: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """Set up the augmentation.

        Args:
            model: a trained model; it is held, not copied, and kept in evaluation mode.
            p: probability that an image is moved at all.
            same_on_batch: do the same to every image of a batch; encoded scales are then the
                smallest of the batch, which suits every image.
            source: where scales come from: the coefficient ``"encoder"``, the fixed ``"prior"``,
                or ``"auto"`` for the encoder if the model has one.
            multiplier: factor on the scales.
            prior_scale: scale of the prior; the model's own if left out.
            n_steps: length of the walk; scales are read again at every step.
            guard: a `Guard`, or a probability for one with the model's own classifier.
            residual: share of what the autoencoder could not draw that is added back.
            bfloat16: run the networks in this short type, for speed on CPUs that compute in it;
                pixels then differ by 0.02 at most, by less than 0.001 on average. Without
                effect on the autoencoder elsewhere.
            generator: where the randomness comes from.
        """
        super().__init__()
        check_kind("model", model, ManifoldAutoencoder)
        self.__dict__["model"] = model  # no submodule: whoever holds us must not train or store it
        self.p = check_number("p", p, "a probability, from 0 to 1", high=1)
        self.same_on_batch = check_flag("same_on_batch", same_on_batch)
        self.source = choose_source(model, source)
        self.multiplier = check_number("multiplier", multiplier, "a number from 0 on")
        self.prior_scale = model.prior_scale
        if prior_scale is not None:
            self.prior_scale = check_number(
                "prior_scale", prior_scale, "a positive number", open=True
            )
        self.n_steps = check_whole("n_steps", n_steps, least=1)
        self.residual = check_number("residual", residual, "a share, from 0 to 1", high=1)
        short = torch.bfloat16 if check_flag("bfloat16", bfloat16) else None
        self._networks = Executor(model, short)
        self.__dict__["guard"] = make_guard(guard, model)
        self._draws = Draws(check_generator(generator))
        self.register_buffer("_place", torch.empty(0, device=model.device), persistent=False)
        self._followed = model.device
        self.params = None
        self.train(self.training)

    def forward(
        self,
        images: Float[Tensor, "*b c h w"],
        params: Params | None = None,
        *,
        labels: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "*b c h w"]:
        """Move images at random, or as ``params`` of an earlier call say.

        Args:
            images: floats in [0, 1].
            params: what to do; drawn if left out.
            labels: what a guard must go on calling the images; its own opinion if left out.
        """
        self._follow()
        if torch.compiler.is_exporting() and self.guard is not None and params is None:
            raise UserError("guard: its work depends on the images; export with guard=None")
        if torch.compiler.is_compiling() and (self.guard is None or params is not None):
            return self._fixed_work(images, params)
        if torch.compiler.is_compiling():
            # Not a decorator: that would load torch's compiler together with this module.
            outside: Callable[..., Tensor] = torch.compiler.disable(self._forward)  # type: ignore[no-untyped-call]
            return outside(images, params, labels)
        return self._forward(images, params, labels)

    def for_dataset(self, images: Any, labels: Any = None) -> AugmentedDataset:
        """Encode a data set once; reading it gives images that are moved anew every time.

        A DataLoader, its workers or your own loop can read it, image by image or, faster, by
        lists of indices. Settings and randomness stay those of this augmentation.

        Args:
            images: floats in [0, 1], or bytes from 0 to 255 (b, c, h, w); they are kept.
            labels: one for each image, given back beside it; a guard keeps them if it knows them.
        """
        return AugmentedDataset(self, images, labels)

    @torch.no_grad()
    def encode(self, images: Any, labels: Int[Tensor, " b"] | None = None) -> Start:
        """Encode a batch of images, to be moved many times by `augment_encoded`.

        Args:
            images: floats in [0, 1].
            labels: what a guard must go on calling the images; its own opinion if left out.
        """
        self._follow()
        batch, _ = self.model.check_images(images)
        return self._encode(batch, labels)

    @torch.no_grad()
    def augment_encoded(
        self, start: Start, images: Callable[[], Float[Tensor, "b c h w"]]
    ) -> Float[Tensor, "b c h w"]:
        """Do to encoded images what a call does to images, without the encoder.

        Args:
            start: from `encode`.
            images: gives the images themselves; asked only if some of them stay as they are.
        """
        self._follow()
        apply = self._choose_images(len(start.latents))
        rows = apply.nonzero()[:, 0]
        everyone = len(rows) == len(apply)
        batch = None
        if not everyone or self.guard is not None or self.residual:
            batch, _ = self.model.check_images(images(), values=False)
        if batch is None or everyone:
            return self._move(apply, start, batch)
        pictures = self._move(apply, start.rows(rows), batch[rows])
        return batch.index_copy(0, rows, pictures)

    @torch.no_grad()
    def sample(
        self, latents: Float[Tensor, "b d"], labels: Int[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b c h w"], Bool[Tensor, " b"]]:
        """Draw moved images of points that are encoded already, moving every one of them.

        For large pools of few images: they need not be encoded again for every copy. Neither
        ``p`` nor ``residual`` apply.

        Args:
            latents: where to start, in scaled units.
            labels: what a guard must go on calling the points; its own opinion if left out.

        Returns:
            The images, and which of them a guard accepted (all without one).
        """
        _, walks = self._walks_from(latents, labels)
        return self._show(walks, None), walks.accepted

    @torch.no_grad()
    def move(
        self, latents: Float[Tensor, "b d"], labels: Int[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b d"], Bool[Tensor, " b"]]:
        """Draw moved points in latent space; needs no decoder.

        Args:
            latents: where to start, in scaled units; every point is moved.
            labels: what a guard must go on calling the points; its own opinion if left out.

        Returns:
            The moved points, and which of them a guard accepted (all without one); a refused
            point stays where it was.
        """
        points, walks = self._walks_from(latents, labels)
        return torch.where(walks.accepted[:, None], walks.ends, points), walks.accepted

    def _walks_from(self, latents: Any, labels: Any) -> tuple[Float[Tensor, "b d"], GuardedWalks]:
        """Give the points as they were checked, and walks from them."""
        self._follow()
        points = check_latents(latents, self.model.latent_dimension, self.model.operators.weight)
        if points.ndim != 2:
            raise UserError(f"latents have shape {tuple(points.shape)}; pass (number, dimensions)")
        looks = self.guard is not None and labels is None and self.guard.reads_images(self.model)
        inputs = self._networks.decode(points) if looks else points
        return points, self._walks(Start(points, None, self._names(inputs, points, labels)))

    def train(self, mode: bool = True) -> TransportAugment:
        """Switch the module's own mode; the model inside stays in evaluation mode."""
        super().train(mode)
        self.model.eval()
        if self.guard is not None:
            self.guard.eval()
        return self

    def _follow(self) -> None:
        """Bring the model to where the module we are part of has been moved."""
        place = self._place.device
        if place != self._followed:
            self.model.to(place)
            if self.guard is not None and isinstance(self.guard.classifier, nn.Module):
                self.guard.classifier.to(place)
            self._followed = place

    def extra_repr(self) -> str:
        """Show the settings when the module is printed."""
        return (
            f"p={self.p}, source={self.source}, multiplier={self.multiplier}, "
            f"n_steps={self.n_steps}, residual={self.residual}, same_on_batch={self.same_on_batch}"
        )

    @torch.no_grad()
    def _forward(self, images: Any, params: Params | None, labels: Any) -> Tensor:
        given = check_tensor("images", images)
        batch, single = self.model.check_images(given)
        if params is None:
            apply = self._choose_images(len(batch))
        else:
            params = check_params(params, len(batch), self.model)
            apply = params["apply"]
        rows = apply.nonzero()[:, 0]
        everyone = len(rows) == len(batch)
        chosen = batch if everyone else batch[rows]
        if params is None:
            if labels is not None:
                labels = check_labels(labels, len(batch), self.model.device)[rows]
            pictures = self._move(apply, self._encode(chosen, labels), chosen)
        else:
            pictures = self._replay(chosen, params["coefficients"][rows])
            self.params = params
        result = pictures if everyone else batch.index_copy(0, rows, pictures)
        return (result[0] if single else result).to(given.device, given.dtype)

    def _encode(self, images: Float[Tensor, "b c h w"], names: Tensor | None) -> Start:
        latents, rest = self._networks.encode(images), self._networks.rest(images)
        return Start(latents, rest, self._names(images, latents, names))

    def _names(self, images: Tensor, latents: Tensor, labels: Any) -> Int[Tensor, " b"] | None:
        """Say what a guard must go on calling images: their labels, or its own opinion."""
        if self.guard is None or len(latents) == 0:
            return None
        if labels is not None:
            if not self.guard.knows_labels(self.model):
                raise UserError(
                    "labels: this model's identity are groups of the neighbour graph, which are "
                    "not your labels; leave labels out, or pass Guard(classifier) that knows them"
                )
            return check_labels(labels, len(latents), self.model.device)
        inputs = images if self.guard.reads_images(self.model) else latents
        return self.guard.logits(self.model, inputs).argmax(1)

    def _move(
        self, apply: Bool[Tensor, " b"], start: Start, images: Float[Tensor, "r c h w"] | None
    ) -> Float[Tensor, "r c h w"]:
        """Draw moves of the images that ``apply`` chooses, and note down what was done.

        ``images`` are the chosen ones; None where neither a guard nor the residual needs them.
        """
        walks = self._walks(start)
        pictures = self._redraw(images, start, self._show(walks, start.rest))
        rows, refused = apply.nonzero()[:, 0], ~walks.accepted
        if images is not None and bool(refused.any()):
            pictures[refused] = images[refused]
            apply[rows[refused]] = False
            walks.coefficients[refused] = 0
        shape = (len(apply), self.n_steps, self.model.operators.n_operators)
        self.params = {
            "apply": apply,
            "coefficients": pictures.new_zeros(shape).index_copy(0, rows, walks.coefficients),
            "draws": torch.zeros_like(apply, dtype=torch.long).index_copy(0, rows, walks.draws),
        }
        return pictures

    def _show(self, walks: GuardedWalks, rest: Tensor | None) -> Float[Tensor, "b c h w"]:
        """Decode where walks ended, unless a guard has looked at it already."""
        known = walks.pictures
        return self._networks.decode(walks.ends, rest) if known is None else known

    def _replay(self, images: Tensor, coefficients: Float[Tensor, "r s m"]) -> Tensor:
        """Move images as they were moved before."""
        start = Start(self._networks.encode(images), self._networks.rest(images))
        ends = retrace(self.model.transport, start.latents, coefficients)
        return self._redraw(images, start, self._networks.decode(ends, start.rest))

    def _walks(self, start: Start) -> GuardedWalks:
        def draw(points: Tensor) -> tuple[Tensor, Tensor]:
            return walk(self.model.transport, self._scales, points, self._uniform(points))

        if self.guard is None or start.names is None:
            ends, coefficients = draw(start.latents)
            everyone = torch.ones(len(ends), dtype=torch.bool, device=ends.device)
            return GuardedWalks(ends, coefficients, everyone.long(), everyone, None)
        return walk_guarded(self._networks, self.guard, draw, start, all_or_none=self.same_on_batch)

    def _fixed_work(self, images: Tensor, params: Params | None) -> Tensor:
        """Do the same without a step that depends on values: for compiling and exporting."""
        batch, single = self.model.check_images(images, values=False)
        network, scale = self.model.autoencoder, self.model.latent_scale
        operators = self.model.operators.operators

        def move(coefficients: Tensor, latents: Tensor) -> Tensor:
            return transport(
                operators, coefficients, latents, n_terms=_STATIC_TERMS, n_steps=_STATIC_STEPS
            )

        with torch.no_grad():
            latents, rest = network.encode(batch) / scale, network.rest(batch)
            if params is None:
                apply = self._choose_images(len(batch))
                ends, coefficients = walk(move, self._scales, latents, self._uniform(latents))
                if not torch.compiler.is_exporting():
                    self.params = {"apply": apply, "coefficients": coefficients}
            else:
                apply, ends = params["apply"], retrace(move, latents, params["coefficients"])
            pictures = network.decode(ends * scale, rest)
            if self.residual:
                missing = batch - network.decode(latents * scale, rest)
                pictures = (pictures + self.residual * missing).clamp(0, 1)
            chosen = apply.reshape(-1, *(1,) * (batch.ndim - 1))
            result = torch.where(chosen, pictures, batch)
        return (result[0] if single else result).to(images.device, images.dtype)

    def _redraw(self, images: Tensor | None, start: Start, pictures: Tensor) -> Tensor:
        """Add back what the autoencoder could not draw."""
        if not self.residual:
            return pictures
        assert images is not None
        missing = images - self._networks.decode(start.latents, start.rest)
        return (pictures + self.residual * missing).clamp_(0, 1)

    def _scales(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b m"]:
        """Give the Laplace scale of every coefficient at every point."""
        encoder, n_operators = self.model.coefficient_encoder, self.model.operators.n_operators
        if self.source == "prior" or encoder is None:
            return latents.new_full((len(latents), n_operators), self.prior_scale * self.multiplier)
        scales = self._networks.scales(latents) * self.multiplier
        if self.same_on_batch and len(scales):
            return scales.amin(0, keepdim=True).expand_as(scales)
        return scales

    def _choose_images(self, n_images: int) -> Bool[Tensor, " b"]:
        n = 1 if self.same_on_batch else n_images
        drawn = self._draws.uniform(n, like=self.model.operators.weight) < self.p
        return drawn.expand(n_images).clone()

    def _uniform(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "#b s m"]:
        n = 1 if self.same_on_batch else len(latents)
        return self._draws.uniform(n, self.n_steps, self.model.operators.n_operators, like=latents)
