"""Third phase: adapt network and operators to each other on the joint objective.

Blocks of steps alternate: first the network with the operators fixed, then the operators with the
network fixed. Coefficients are always inferred by the fast solver and held fixed within a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.config import FineTuningSettings
from transop.data import ImageDataset
from transop.model import ManifoldAutoencoder
from transop.networks import Autoencoder, prefer_channels_last
from transop.operators import data_gradient, transport
from transop.training.autoencoder import load_images
from transop.training.diagnostics import OperatorMonitor
from transop.training.loop import Loop, steps_in
from transop.training.operators import data_term, infer_quietly, review, step_operators
from transop.training.pair_order import PairOrder, Pairs
from transop.training.session import Session

PHASE = "fine_tuning"
_REVIEW_EVERY = 200


class _Through(nn.Module):
    """Encodes and decodes in one call, the only one that data-parallel training sees."""

    def __init__(self, network: Autoencoder) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        latents = self.network.encode(images)
        return latents, self.network.decode(latents)


def fine_tune(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset, pairs: Pairs
) -> dict[str, Any]:
    """Train network and operators together, in place.

    [FINETUNE]  lambda (|x0 - x0_hat|^2 + |x1 - x1_hat|^2) + (1 - lambda) L_Psi

    Differs from the paper: the reconstruction terms are means over pixels, as in the first phase,
    so that lambda weighs terms of comparable size.

    Args:
        session: the run.
        model: its autoencoder, operators and sparsity weight change.
        dataset: the images.
        pairs: positions in the split "train" that belong together.
    """
    settings = session.settings.fine_tuning
    batch_size = min(settings.batch_size, len(pairs))
    per_epoch, n_steps = steps_in(settings.epochs, len(pairs), batch_size)
    if n_steps > 0:
        model.sparsity_weight = settings.sparsity_weight
    prefer_channels_last(model.autoencoder)
    tuner = _Tuner(session, model, settings)
    rows = dataset.splits["train"]
    order = PairOrder(session, PHASE, pairs, batch_size)
    loop = Loop(
        session,
        PHASE,
        n_steps,
        modules={"network": model.autoencoder, "operators": model.operators},
        optimisers={"network": tuner.network_optimiser, "operators": tuner.operator_optimiser},
        steps_per_epoch=per_epoch,
        items_per_step=batch_size,
        items="pairs",
        report_every=20,
        explain=tuner.monitor.explain_overflow,
    )
    for step in loop:
        tuner.monitor.memory = loop.memory.setdefault("monitor", {})
        starts, ends = order.rows(step)
        both = np.concatenate([rows[starts.numpy()], rows[ends.numpy()]])
        images = load_images(dataset, both, session)
        for optimiser, rate in tuner.rates():
            for group in optimiser.param_groups:
                group["lr"] = rate * loop.step_factor
        position = step % (settings.network_steps + settings.operator_steps)
        if position < settings.network_steps:
            every = settings.reconstruction_every
            alone = every > 0 and position % every == every - 1
            tuner.step_network(loop, images, reconstruction_only=alone)
        else:
            tuner.step_dictionary(loop, images)
        if (step + 1) % _REVIEW_EVERY == 0 or step + 1 == n_steps:
            review(session, loop, tuner.monitor, model.operators, tuner.watched)
    model.autoencoder.eval()
    return {}


class _Tuner:
    """The two kinds of steps of the phase and what they share."""

    def __init__(
        self, session: Session, model: ManifoldAutoencoder, settings: FineTuningSettings
    ) -> None:
        self.session, self.model, self.settings = session, model, settings
        self.monitor = OperatorMonitor(PHASE)
        self.watched: Tensor = torch.zeros(1, model.latent_dimension)
        self.network_optimiser = torch.optim.Adam(
            model.autoencoder.parameters(), settings.network_learning_rate
        )
        self.operator_optimiser = torch.optim.Adam(
            model.operators.parameters(), settings.operator_learning_rate
        )
        self._through, self._network_steps = session.fabric.setup(
            _Through(model.autoencoder), self.network_optimiser
        )

    def rates(self) -> list[tuple[torch.optim.Optimizer, float]]:
        """Pair every optimiser with its learning rate."""
        return [
            (self.network_optimiser, self.settings.network_learning_rate),
            (self.operator_optimiser, self.settings.operator_learning_rate),
        ]

    def step_network(
        self, loop: Loop, images: Float[Tensor, "b c h w"], *, reconstruction_only: bool
    ) -> None:
        """Take a step on the network with the operators fixed."""
        self.model.autoencoder.train()
        raw, decoded = self._through(images)
        if not loop.check(raw):
            return
        reconstruction = 2 * (decoded - images).square().mean()  # both images of a pair
        value = reconstruction
        if not reconstruction_only:
            z0, z1 = (raw.float() / self.model.latent_scale).chunk(2)
            coefficients = self._infer(z0.detach(), z1.detach())
            moved = transport(self.model.operators.operators.detach(), coefficients, z0)
            distance = (z1 - moved).square().sum(1).mean() / 2
            share = self.settings.reconstruction_weight
            value = share * reconstruction + (1 - share) * distance
            loop.record(joint=value.item(), network_distance=distance.item())
        if not loop.check(value):
            return
        self._network_steps.zero_grad()
        self.session.fabric.backward(value)
        self._network_steps.step()
        loop.record(mse=reconstruction.item() / 2)

    def step_dictionary(self, loop: Loop, images: Float[Tensor, "b c h w"]) -> None:
        """Take a step on the operators with the network fixed."""
        self.model.autoencoder.eval()
        with torch.no_grad():
            raw = self.model.autoencoder.encode(images)
        z0, z1 = (raw.float() / self.model.latent_scale).chunk(2)
        if not loop.check(raw):
            return
        coefficients = self._infer(z0, z1)
        operators = self.model.operators
        before, gradient = data_gradient(operators.operators.detach(), coefficients, z0, z1)
        if not loop.check(before.sum() + gradient.abs().sum()):
            return
        step_operators(self.session, operators, self.operator_optimiser, gradient, self.settings)
        after = data_term(operators, coefficients, z0, z1)
        self.watched = z0
        difference = self.monitor.observe(coefficients, before, after)
        loop.record(loss=float(before.mean()), difference=difference)

    def _infer(self, z0: Tensor, z1: Tensor) -> Tensor:
        return infer_quietly(
            self.model.operators,
            z0,
            z1,
            sparsity_weight=self.settings.sparsity_weight,
            solver=self.session.settings.operators.solver,
        )
