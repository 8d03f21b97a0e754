"""TransportAugment: random moves along the learned operators, as a drop-in transform."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.data import get_worker_info

from transop.augment.guard import Guard, GuardedWalks, walk_guarded
from transop.augment.walk import retrace, walk
from transop.errors import UserError
from transop.inputs import (
    check_choice,
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

Source = Literal["auto", "encoder", "prior"]

# Terms and steps of the series when the work must not depend on the data. Generators up to norm
# 10, far beyond what keeps identity, are then exponentiated to 1e-8.
_STATIC_TERMS, _STATIC_STEPS = 12, 8


class Params(TypedDict, total=False):
    """What was done to a batch; hand it back to do the same again."""

    apply: Bool[Tensor, " b"]  # which images were moved
    coefficients: Float[Tensor, "b s m"]  # of every step
    draws: Int[Tensor, " b"]  # moves a guard looked at; not needed to repeat them


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
            generator: where the randomness comes from.
        """
        super().__init__()
        check_kind("model", model, ManifoldAutoencoder)
        self.__dict__["model"] = model  # no submodule: whoever holds us must not train or store it
        self.p = check_number("p", p, "a probability, from 0 to 1", high=1)
        self.same_on_batch = check_flag("same_on_batch", same_on_batch)
        self.source = _choose_source(model, source)
        self.multiplier = check_number("multiplier", multiplier, "a number from 0 on")
        self.prior_scale = model.prior_scale
        if prior_scale is not None:
            self.prior_scale = check_number(
                "prior_scale", prior_scale, "a positive number", open=True
            )
        self.n_steps = check_whole("n_steps", n_steps, least=1)
        self.residual = check_number("residual", residual, "a share, from 0 to 1", high=1)
        self.__dict__["guard"] = _make_guard(guard, model)
        self.generator = check_generator(generator)
        self.register_buffer("_place", torch.empty(0, device=model.device), persistent=False)
        self._followed = model.device
        self._worker: tuple[int, torch.Generator] | None = None
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
        moved: Tensor = self._forward(images, params, labels)
        return moved

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
        walks = self._walks_from(latents, labels)
        pictures = self.model.decode(walks.ends) if walks.pictures is None else walks.pictures
        return pictures, walks.accepted

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
        walks = self._walks_from(latents, labels)
        start = check_latents(latents, self.model.latent_dimension, self.model.operators.weight)
        return torch.where(walks.accepted[:, None], walks.ends, start), walks.accepted

    def _walks_from(self, latents: Any, labels: Any) -> GuardedWalks:
        self._follow()
        points = check_latents(latents, self.model.latent_dimension, self.model.operators.weight)
        if points.ndim != 2:
            raise UserError(f"latents have shape {tuple(points.shape)}; pass (number, dimensions)")
        names = None if labels is None else self._check_labels(labels, len(points))
        looks = self.guard is not None and names is None and self.guard.reads_images(self.model)
        return self._walks(self.model.decode(points) if looks else points, points, names)

    def train(self, mode: bool = True) -> TransportAugment:
        """Switch the module's own mode; the model inside stays in evaluation mode."""
        super().train(mode)
        self.model.eval()
        if self.guard is not None:
            self.guard.eval()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Write the generator down as numbers: a DataLoader's new process cannot share it."""
        state = dict(self.__dict__)
        if self.generator is not None:
            numbers = self.generator.get_state().numpy().tobytes()
            state["generator"] = (str(self.generator.device), numbers)
        return {**state, "_worker": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the generator again from its numbers."""
        if state["generator"] is not None:
            device, numbers = state["generator"]
            generator = torch.Generator(device)
            generator.set_state(torch.frombuffer(bytearray(numbers), dtype=torch.uint8))
            state = {**state, "generator": generator}
        super().__setstate__(state)  # type: ignore[no-untyped-call]

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

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def _forward(self, images: Any, params: Params | None, labels: Any) -> Tensor:
        given = check_tensor("images", images)
        batch, single = self.model.check_images(given)
        if params is None:
            params, rows, pictures = self._sample(batch, labels)
        else:
            params = _check_params(params, len(batch), self.model)
            rows = params["apply"].nonzero()[:, 0]
            latents, rest = self.model.encode(batch[rows]), self.model.rest(batch[rows])
            ends = retrace(self.model.transport, latents, params["coefficients"][rows])
            pictures = self.model.decode(ends, rest=rest)
            pictures = self._redraw(batch[rows], latents, rest, pictures)
        self.params = params
        result = batch.index_copy(0, rows, pictures)
        return (result[0] if single else result).to(given.device, given.dtype)

    def _sample(
        self, batch: Tensor, labels: Any
    ) -> tuple[Params, Int[Tensor, " r"], Float[Tensor, "r c h w"]]:
        """Draw what to do, and do it, since a guard has to look at the result anyway."""
        apply = self._choose_images(batch)
        rows = apply.nonzero()[:, 0]
        latents, rest = self.model.encode(batch[rows]), self.model.rest(batch[rows])
        names = None if labels is None else self._check_labels(labels, len(batch))[rows]
        walks = self._walks(batch[rows], latents, names, rest)
        pictures = walks.pictures
        if pictures is None:
            pictures = self.model.decode(walks.ends, rest=rest)
        pictures = self._redraw(batch[rows], latents, rest, pictures)
        refused = ~walks.accepted
        pictures[refused] = batch[rows[refused]]
        apply[rows[refused]] = False
        walks.coefficients[refused] = 0
        shape = (len(batch), self.n_steps, self.model.operators.n_operators)
        params: Params = {
            "apply": apply,
            "coefficients": batch.new_zeros(shape).index_copy(0, rows, walks.coefficients),
            "draws": torch.zeros_like(apply, dtype=torch.long).index_copy(0, rows, walks.draws),
        }
        return params, rows, pictures

    def _walks(
        self, images: Tensor, latents: Tensor, names: Tensor | None, rest: Tensor | None = None
    ) -> GuardedWalks:
        def draw(points: Tensor) -> tuple[Tensor, Tensor]:
            return walk(self.model.transport, self._scales, points, self._uniform(points))

        if self.guard is None or len(latents) == 0:
            ends, coefficients = draw(latents)
            everyone = torch.ones(len(latents), dtype=torch.bool, device=latents.device)
            return GuardedWalks(ends, coefficients, everyone.long(), everyone, None)
        if names is not None:
            self.guard.check_labels(self.model)
        else:
            inputs = images if self.guard.reads_images(self.model) else latents
            names = self.guard.logits(self.model, inputs).argmax(1)
        return walk_guarded(
            self.model, self.guard, draw, latents, names, rest, all_or_none=self.same_on_batch
        )

    def _check_labels(self, labels: Any, n_images: int) -> Int[Tensor, " b"]:
        """Bring labels to the model's device; a guard looks up whether it knows them."""
        names = check_tensor("labels", labels)
        if names.shape != (n_images,) or names.is_floating_point() or names.dtype == torch.bool:
            raise UserError(
                f"labels have type {names.dtype} and shape {tuple(names.shape)}; pass one class "
                f"number for each of the {n_images} images"
            )
        return names.long().to(self.model.device)

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
                apply = self._choose_images(batch)
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

    def _redraw(
        self, images: Tensor, latents: Tensor, rest: Tensor | None, pictures: Tensor
    ) -> Tensor:
        """Add back what the autoencoder could not draw."""
        if not self.residual:
            return pictures
        missing = images - self.model.decode(latents, rest=rest)
        return (pictures + self.residual * missing).clamp_(0, 1)

    def _scales(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b m"]:
        """Give the Laplace scale of every coefficient at every point."""
        encoder, n_operators = self.model.coefficient_encoder, self.model.operators.n_operators
        if self.source == "prior" or encoder is None:
            return latents.new_full((len(latents), n_operators), self.prior_scale * self.multiplier)
        scales: Tensor = encoder(latents) * self.multiplier
        if self.same_on_batch and len(scales):
            return scales.amin(0, keepdim=True).expand_as(scales)
        return scales

    def _choose_images(self, batch: Tensor) -> Bool[Tensor, " b"]:
        n = 1 if self.same_on_batch else len(batch)
        drawn = self._rand(n, like=batch) < self.p
        return drawn.expand(len(batch)).clone()

    def _uniform(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "#b s m"]:
        n = 1 if self.same_on_batch else len(latents)
        return self._rand(n, self.n_steps, self.model.operators.n_operators, like=latents)

    def _rand(self, *shape: int, like: Tensor) -> Tensor:
        generator = self._generator()
        if generator is None:
            return torch.rand(shape, dtype=like.dtype, device=like.device)
        drawn = torch.rand(shape, generator=generator, dtype=like.dtype, device=generator.device)
        return drawn.to(like.device)

    def _generator(self) -> torch.Generator | None:
        """Give every DataLoader worker numbers of its own: all hold a copy of one generator."""
        if self.generator is None or torch.compiler.is_compiling():
            return self.generator
        info = get_worker_info()
        if info is None:
            return self.generator
        if self._worker is None or self._worker[0] != info.seed:
            seed = (self.generator.initial_seed() + info.seed) % 2**63
            self._worker = (info.seed, torch.Generator().manual_seed(seed))
        return self._worker[1]


def _choose_source(model: ManifoldAutoencoder, source: str) -> Literal["encoder", "prior"]:
    check_choice("source", source, ("auto", "encoder", "prior"))
    if source == "encoder" and model.coefficient_encoder is None:
        raise UserError(
            "source = 'encoder', but the model has no coefficient encoder; train the phase "
            "'coefficient_encoder' or use source='prior'"
        )
    return "prior" if source == "prior" or model.coefficient_encoder is None else "encoder"


def _make_guard(guard: Any, model: ManifoldAutoencoder) -> Guard | None:
    """Take a guard as it is; a probability becomes one with the model's own classifier."""
    if guard is None:
        return None
    chosen = guard if isinstance(guard, Guard) else Guard(threshold=guard)
    if chosen.classifier is None and not model.names_classes:
        raise UserError(
            "guard: the model has no classifier that names classes; pass Guard(classifier), or "
            "train the phase 'classifier'"
        )
    return chosen


def _check_params(params: Params, n_images: int, model: ManifoldAutoencoder) -> Params:
    """Bring replayed parameters to the model's device, or say why they do not fit."""
    try:
        given = (params["apply"], params["coefficients"])
    except (KeyError, TypeError, IndexError):
        raise UserError("params must hold 'apply' and 'coefficients', as .params does") from None
    apply, coefficients = (check_tensor("params", values) for values in given)
    n_operators = model.operators.n_operators
    if apply.shape != (n_images,) or apply.dtype != torch.bool:
        raise UserError(
            f"params['apply'] is {apply.dtype} for {apply.numel()} images, but there are "
            f"{n_images} images; replay params on the same batch"
        )
    if coefficients.ndim != 3 or coefficients.shape[::2] != (n_images, n_operators):
        raise UserError(
            f"params['coefficients'] has shape {tuple(coefficients.shape)}, but there are "
            f"{n_images} images and {n_operators} operators; replay params on the same batch"
        )
    weight = model.operators.weight
    return {**params, "apply": apply.to(weight.device), "coefficients": coefficients.to(weight)}
