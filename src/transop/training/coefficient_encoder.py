"""Last phase: learn how far each operator may go at every point before identity changes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from transop.data import ImageDataset
from transop.evaluation import far_scale
from transop.identity import Identity
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder
from transop.operators import laplace_kl, sample_moves
from transop.training.distillation import Classify, ask_classifier, distil
from transop.training.latents import encode_in, make_pairs
from transop.training.loop import Loop
from transop.training.measures import measure_moves
from transop.training.neighbour_scales import neighbour_scales
from transop.training.session import Session
from transop.training.steps import Rows

PHASE = "coefficient_encoder"


def train_coefficient_encoder(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    """Give a model the network that scales its coefficients, everything else being fixed.

    [ENCODER]  KL(y || r(z_hat)) + weight * KL(q(c|z) || p(c)),  z_hat = expm(sum_m c_m Psi_m) z

    The first term keeps the classifier's opinion (of every attribute, if it tells attributes), the
    second keeps moves as large as the prior.

    Differs from the paper: the prior term is averaged over living operators only, so that its
    weight does not depend on how many died.

    The model needs operators and a classifier. What is returned is how often sampled moves keep
    identity and how far they go, on held-out images, and whose opinion identity is.
    """
    settings = session.settings.coefficient_encoder
    identity, multiplier = Identity.of(model), settings.scale_multiplier
    with session.seeded("weights", PHASE):
        encoder = CoefficientEncoder(
            model.latent_dimension,
            model.operators.n_operators,
            hidden=settings.hidden,
            scale_multiplier=model.prior_scale if multiplier == "neighbours" else multiplier,
        ).to(session.device)
    for module in (model.autoencoder, identity.network):
        module.eval().requires_grad_(False)
    latents = encode_in(session, model.autoencoder, dataset) / model.latent_scale
    prior = _prior(session, model, dataset, latents)
    numbers: dict[str, Any] = {"identity": identity.describe()}
    targets = _Targets(session, model, latents)
    classify: Classify = lambda points: model.classify_latents(points, gradients=True)  # noqa: E731
    if settings.distil and identity.domain == "image":
        classify, numbers["distilled_agreement"] = distil(
            session,
            model.classify_latents,
            model.operators.operators.detach(),
            latents,
            outputs=targets.outputs,
            prior_scale=float(prior.mean()),
            n_samples=settings.distil_samples,
        )
    _train(session, model, encoder, latents, targets, classify, prior)
    for module in (model.autoencoder, identity.network):
        module.requires_grad_(True)
    model.coefficient_encoder = encoder.eval()
    model.prior_scale = settings.prior_scale or model.prior_scale
    session.folder.drop_checkpoints("distillation")
    return numbers | _closing_numbers(session, model, dataset, latents)


def _prior(
    session: Session,
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    latents: Float[Tensor, "n d"],
) -> Float[Tensor, "#n m"]:
    """Give the prior's scales: one row for all points, or one for each."""
    settings = session.settings.coefficient_encoder
    by_graph = Identity.of(model).source == "graph" and settings.prior_scale is None
    if settings.prior == "neighbours" or (settings.prior == "auto" and by_graph):
        pairs = make_pairs(session, model.autoencoder, dataset)
        if pairs.neighbours is not None:
            return neighbour_scales(session, model, latents, pairs.neighbours)
    scale = settings.prior_scale or far_scale(model.operators.operators.detach(), latents)
    return latents.new_full((1, model.operators.n_operators), scale)


class _Targets:
    """The classifier's opinion, which every moved point should keep, as log-probabilities."""

    def __init__(
        self, session: Session, model: ManifoldAutoencoder, latents: Float[Tensor, "n d"]
    ) -> None:
        self._session, self._model, self._latents = session, model, latents
        self.outputs = tuple(model.classify_latents(latents[:1]).shape[1:])
        self._known: Tensor | None = None

    def at(self, rows: Tensor) -> Float[Tensor, "b ..."]:
        """Give the target of some training images.

        The classifier is asked about all of them at the first question, in an order that does
        not depend on the step: a resumed run gets the same bits.
        """
        if self._known is None:
            classify = self._model.classify_latents
            self._known = ask_classifier(self._session, classify, self._latents, self.outputs)
        return self._known[rows.to(self._known.device)]


def _train(
    session: Session,
    model: ManifoldAutoencoder,
    encoder: CoefficientEncoder,
    latents: Float[Tensor, "n d"],
    targets: _Targets,
    classify: Classify,
    prior: Float[Tensor, "#n m"],
) -> None:
    settings = session.settings.coefficient_encoder
    optimiser = torch.optim.Adam(encoder.parameters(), settings.learning_rate, fused=True)
    noise = session.generator(PHASE, "coefficients")
    operators, living = model.operators.operators.detach(), model.operators.living()
    wrapped = session.set_up(encoder)
    share = slice(session.ranks.rank, None, session.ranks.n_ranks)
    loop = Loop.over(
        session,
        PHASE,
        settings,
        Rows(torch.arange(len(latents))),
        modules={"encoder": encoder},
        optimisers={"encoder": optimiser},
        generators={"coefficients": noise},
        items="points",
        explain=lambda: "lower coefficient_encoder.prior_scale or its learning_rate",
    )
    for _ in loop:
        (rows,) = loop.batch()
        points = latents[rows.to(latents.device)]
        scales = wrapped(points).float()
        # Drawn for the whole batch, so that it does not matter how many devices share it.
        uniform = torch.rand(loop.items_per_step, len(living), generator=noise)[share].to(scales)
        moved, _ = sample_moves(operators, points, scales, uniform=uniform)
        opinion = log_softmax(classify(moved), -1)
        change = kl_div(opinion, targets.at(rows), reduction="batchmean", log_target=True)
        wanted = prior[rows.to(prior.device)] if len(prior) > 1 else prior
        divergence = laplace_kl(scales, wanted)
        pull = _mean_over(divergence, living) + _mean_over(divergence, ~living)
        value = change + settings.kl_weight * pull
        if not loop.minimise(optimiser, value):
            continue
        loop.record(
            loss=value.item(),
            change=change.item(),
            divergence=_mean_over(divergence, living).item(),
            scale=_mean_over(scales, living).item(),
        )


def _mean_over(values: Float[Tensor, "b m"], chosen: Tensor) -> Float[Tensor, ""]:
    """Average over points and the chosen operators; zero if none is chosen.

    Living and dead operators are averaged apart: the dead only follow the prior, and must not
    dilute its pull on the living.
    """
    return values[:, chosen].mean() if bool(chosen.any()) else values.new_zeros(())


def _closing_numbers(
    session: Session,
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    latents: Float[Tensor, "n d"],
) -> dict[str, Any]:
    living = model.operators.living()
    scales = model.scales_at(latents[:10_000]).mean(0)
    return {
        **measure_moves(model, dataset, session.generator(PHASE, "measure")),
        "mean_scale": float(scales[living].mean()) if bool(living.any()) else 0.0,
        "mean_scales": [round(v, 5) for v in scales.tolist()],
    }
