"""Third phase: adapt network and operators to each other on the joint objective.

Blocks of steps alternate: first the network with the operators fixed, then the operators with the
network fixed. Coefficients are always inferred by the fast solver and held fixed within a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from transop.config import Settings
from transop.data import ImageDataset
from transop.model import ManifoldAutoencoder
from transop.networks import Autoencoder, prefer_channels_last
from transop.operators import transport
from transop.pairs import PairSource
from transop.training.autoencoder import ReconstructionLoss, load_images
from transop.training.latents import encode_split
from transop.training.loop import Loop
from transop.training.operators import DictionaryLearner
from transop.training.session import Session

PHASE = "fine_tuning"
_REVIEW_EVERY = 200
_WATCHED = 2000  # latent points whose size is known before the operators' first turn

# Takes raw latents of both images of pairs; gives the first ones, carried to the second.
Move = Callable[[Tensor], Tensor]


class _Seen(NamedTuple):
    """What the network makes of a batch; None where it was not asked."""

    latents: Tensor
    decoded: Tensor
    moved: Tensor | None = None  # latents of the first images, carried to the second
    arrived: Tensor | None = None  # images there
    shown: Tensor | None = None  # images beyond the ends of paths


class _Through(nn.Module):
    """Encodes, decodes and follows paths in one call, the only one that several devices see."""

    def __init__(self, network: Autoencoder, *, decode_moved: bool) -> None:
        super().__init__()
        self.network, self._decode_moved = network, decode_moved

    def forward(self, images: Tensor, move: Move | None, beyond: Tensor | None) -> _Seen:
        """Encode and decode images, follow paths if asked to, and decode further latents."""
        latents = self.network.encode(images)
        decoded = self.network.decode(latents)
        if move is None or not bool(torch.isfinite(latents).all()):
            return _Seen(latents, decoded)
        moved = move(latents)
        arrived = self.network.decode(moved) if self._decode_moved else None
        shown = None if beyond is None else self.network.decode(beyond)
        return _Seen(latents, decoded, moved, arrived, shown)


def fine_tune(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset, pairs: PairSource
) -> None:
    """Train network and operators together, in place.

    [FINETUNE]  lambda (|x0 - x0_hat|^2 + |x1 - x1_hat|^2) + (1 - lambda) L_Psi

    Differs from the paper: the reconstruction terms are means over pixels, as in the first phase,
    so that lambda weighs terms of comparable size; and the latents' mean and spread may be held:

    [ANCHOR]  weight (|mean(z) - mean_0|^2 + (spread(z) - spread_0)^2)

    Without it the second term falls for two reasons that connect nothing: latents shrink, and
    they drift away from the origin until every operator is nearly a translation. With it, the
    term can only fall by drawing together what the pairs connect.

    Nothing in these terms asks what the decoder makes of a point on a path, so it may also be
    asked to show the second image where the path from the first one ends:

    [ARRIVAL]  weight |x1 - decoded(transported z0)|^2

    and images like the second one where a path goes on, [BEYOND]. Normalisation then keeps the
    statistics of the first phase: points outside the data would spoil them.
    """
    settings, rows = session.settings.fine_tuning, dataset.splits["train"]
    beyond_weight = session.settings.beyond_paper.beyond_weight
    model.sparsity_weight = session.settings.fine_tuning_objective.sparsity_weight
    prefer_channels_last(model.autoencoder)
    latents = encode_split(model.autoencoder, dataset, progress=session.progress)
    latents = latents / model.latent_scale
    tuner = _Tuner(session, model, latents)
    beyond = None
    if beyond_weight > 0:
        beyond = Beyond(session, model, dataset, pairs, latents.cpu(), tuner.learner.infer)
    loop = Loop.over(
        session,
        PHASE,
        settings,
        pairs,
        modules={"network": model.autoencoder, "operators": model.operators},
        optimisers={"network": tuner.optimiser, "operators": tuner.learner.optimiser},
        items="pairs",
        report_every=20,
        explain=tuner.learner.monitor.explain_overflow,
    )
    for step in loop:
        images = load_images(dataset, rows[torch.cat(loop.batch()).numpy()], session)
        position = step % (settings.network_steps + settings.operator_steps)
        if position < settings.network_steps:
            every = settings.reconstruction_every
            alone = every > 0 and position % every == every - 1
            rate = loop.rate(tuner.optimiser, settings.network_learning_rate)
            asked = None if beyond is None or alone else beyond.sample(step, loop.items_per_step)
            tuner.step_network(loop, images, rate, asked, reconstruction_only=alone)
        else:
            tuner.step_operators(loop, images)
        if (step + 1) % _REVIEW_EVERY == 0 or step + 1 == loop.n_steps:
            tuner.learner.review(loop, tuner.watched)
    model.autoencoder.eval()


class Anchor:
    """Where the latents were: their mean, and their spread around it."""

    def __init__(self, latents: Float[Tensor, "n d"]) -> None:
        self.mean, self.spread = _mean_and_spread(latents)

    def drift(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, ""]:
        """Measure how far a batch is from there, squared; differentiable."""
        mean, spread = _mean_and_spread(latents)
        return (mean - self.mean).square().sum() + (spread - self.spread).square()


def _mean_and_spread(
    latents: Float[Tensor, "n d"],
) -> tuple[Float[Tensor, " d"], Float[Tensor, ""]]:
    mean = latents.mean(0)
    return mean, (latents - mean).square().sum(1).mean().sqrt()


class _Tuner:
    """The two kinds of steps of the phase and what they share."""

    def __init__(self, session: Session, model: ManifoldAutoencoder, latents: Tensor) -> None:
        settings: Settings = session.settings
        self._model, self._anchor = model, Anchor(latents)
        self._settings, self._extras = settings.fine_tuning, settings.beyond_paper
        objective = settings.fine_tuning_objective
        self.learner = DictionaryLearner(session, model.operators, PHASE, objective)
        self.optimiser = torch.optim.Adam(model.autoencoder.parameters(), fused=True)
        decodes = self._extras.arrival_weight > 0
        self._error = ReconstructionLoss(session)
        self._through = session.set_up(_Through(model.autoencoder, decode_moved=decodes))
        self.watched: Tensor = latents[:_WATCHED]

    def step_network(
        self,
        loop: Loop,
        images: Float[Tensor, "b c h w"],
        rate: float,
        beyond: tuple[Tensor, Tensor] | None,
        *,
        reconstruction_only: bool,
    ) -> None:
        """Take a step on the network with the operators fixed.

        Images are the first and then the second ones of the pairs; ``beyond`` has raw latents
        beyond the ends of paths, and what is to be seen there.
        """
        self._model.autoencoder.train(self._extras.beyond_weight == 0)
        move = None if reconstruction_only else self._move
        points, wanted = (None, None) if beyond is None else beyond
        raw, decoded, moved, arrived, shown = self._through(images, move, points)
        if not loop.check(raw):
            return
        reconstruction = 2 * self._error(decoded, images)  # both images of a pair
        value = reconstruction
        if moved is not None:
            missed = self._scaled(raw.chunk(2)[1] - moved)
            distance = missed.square().sum(1).mean() / 2
            drift = self._anchor.drift(self._scaled(raw))
            share = self._settings.reconstruction_weight
            value = share * reconstruction + (1 - share) * distance
            loop.record(joint=value.item(), network_distance=distance.item(), drift=drift.item())
            value = value + self._extras.anchor_weight * drift
        if arrived is not None:
            arrival = (arrived - images.chunk(2)[1]).square().mean()
            loop.record(arrival_mse=arrival.item())
            value = value + self._extras.arrival_weight * arrival
        if shown is not None and wanted is not None:
            miss = (shown - wanted).square().mean()
            loop.record(beyond_mse=miss.item())
            value = value + self._extras.beyond_weight * miss
        if not loop.check(value):
            return
        loop.descend(self.optimiser, value, rate)
        loop.record(mse=(decoded.detach() - images).square().mean().item())

    def _scaled(self, raw: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return raw.float() / self._model.latent_scale

    def _move(self, raw: Float[Tensor, "b d"]) -> Float[Tensor, "h d"]:
        """Carry the first half of a batch to the second half, differentiably but for c."""
        z0, z1 = self._scaled(raw).chunk(2)
        coefficients = self.learner.infer(z0.detach(), z1.detach())
        with torch.autocast(raw.device.type, enabled=False):  # paths need single precision
            moved = transport(self._model.operators.operators.detach(), coefficients, z0)
        return moved * self._model.latent_scale

    def step_operators(self, loop: Loop, images: Float[Tensor, "b c h w"]) -> None:
        """Take a step on the operators with the network fixed."""
        self._model.autoencoder.eval()
        with torch.no_grad():
            raw = self._model.autoencoder.encode(images)
        if loop.check(raw):
            z0, z1 = self._scaled(raw).chunk(2)
            self.watched = z0
            self.learner.step(loop, z0, z1, self._settings.operator_learning_rate)


REACH = 2.6  # how far paths are followed, in multiples of their length
SPARSITY_WEIGHT = 0.01  # of these paths

# Takes starting points, end points and a sparsity weight; gives coefficients.
Infer = Callable[[Tensor, Tensor, float], Tensor]


@dataclass(frozen=True)
class Beyond:
    """Paths between any two training images, followed past the second one.

    [BEYOND]  weight |x_near - decoded(expm(t A) z0)|^2, 1 < t < 2.6

    No training image is known at such a point, but the neighbours of x1 are known to be like x1.
    Among x1, some of its partners and some of their partners, x_near is the image whose latent is
    nearest to the point. The two images of a path may belong to different classes: beyond x1 the
    path should show images like x1.

    These paths are inferred with a small sparsity weight of their own. A path that misses x1 by
    some distance misses by three times that distance at t = 3.
    """

    session: Session
    model: ManifoldAutoencoder
    dataset: ImageDataset
    pairs: PairSource
    latents: Float[Tensor, "n d"]  # of the training images, in scaled units
    infer: Infer

    @torch.no_grad()
    def sample(
        self, step: int, batch_size: int
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b c h w"]] | None:
        """Give raw latents beyond the ends of paths and an image for each.

        The step decides what is drawn, so that a resumed run draws the same. The batch is that of
        all devices together; each gets its share. If the network gives values that are not finite
        on any of them, all get None.
        """
        session, scale = self.session, self.model.latent_scale
        generator = session.generator("fine_tuning", "beyond", step)
        drawn = torch.randint(len(self.latents), (2 * batch_size,), generator=generator)
        around = self.pairs.around(drawn[batch_size:], generator)
        times = 1 + (REACH - 1) * torch.rand(batch_size, 1, generator=generator)
        share = slice(session.ranks.rank, None, session.ranks.n_ranks)
        raw = self.model.autoencoder.encode(
            self._images(torch.cat([half[share] for half in drawn.chunk(2)]))
        )
        # All devices must agree, or only some of them would report numbers of this step.
        if session.any_device(not bool(torch.isfinite(raw).all())):
            return None
        z0, z1 = (raw.float() / scale).chunk(2)
        coefficients = times[share].to(raw.device) * self.infer(z0, z1, SPARSITY_WEIGHT)
        points = transport(self.model.operators.operators.detach(), coefficients, z0)
        distances = (self.latents[around[share]] - points.cpu()[:, None]).square().sum(-1)
        nearest = around[share].gather(1, distances.argmin(1, keepdim=True))[:, 0]
        return points * scale, self._images(nearest)

    def _images(self, positions: Int64[Tensor, " b"]) -> Float[Tensor, "b c h w"]:
        rows = self.dataset.splits["train"][positions.numpy()]
        return load_images(self.dataset, rows, self.session)
