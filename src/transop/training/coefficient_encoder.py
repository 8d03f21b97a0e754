"""Last phase: learn how far each operator may go at every point before identity changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from transop.data import ImageDataset, spread_out
from transop.evaluation import (
    LENGTHS,
    factor_for_length,
    far_length,
    far_scale,
    held_out_rows,
    measure_kept_curves,
    measure_kept_identity,
)
from transop.identity import Identity
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder
from transop.operators import laplace_kl, sample_moves
from transop.training.distillation import Classify, ask_classifier, distil
from transop.training.latents import encode_in, make_pairs
from transop.training.loop import Loop
from transop.training.session import Session

PHASE = "coefficient_encoder"
_USUAL_LENGTH = 0.3  # at which sources of scales are compared in one number
# How the scales between neighbours are fitted.
_MOST_PAIRS = 10_000
_STEPS, _BATCH, _RATE = 600, 300, 2e-3
_SMALLEST = 1e-3  # an operator that no neighbour needs still has a scale


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
    outputs = tuple(model.classify_latents(latents[:1]).shape[1:])
    classify: Classify = lambda points: model.classify_latents(points, gradients=True)  # noqa: E731
    if settings.distil and identity.domain == "image":
        classify, numbers["distilled_agreement"] = distil(
            session,
            model.classify_latents,
            model.operators.operators.detach(),
            latents,
            outputs=outputs,
            prior_scale=float(prior.mean()),
            n_samples=settings.distil_samples,
        )
    _train(session, model, encoder, latents, outputs, classify, prior)
    for module in (model.autoencoder, identity.network):
        module.requires_grad_(True)
    model.coefficient_encoder = encoder.eval()
    model.prior_scale = settings.prior_scale or model.prior_scale
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


def neighbour_scales(
    session: Session,
    model: ManifoldAutoencoder,
    latents: Float[Tensor, "n d"],
    neighbours: Int[Tensor, "n k"],
) -> Float[Tensor, "n m"]:
    """Give a prior that no label has touched: how far each operator goes between neighbours.

    [LIKELIHOOD]  min over b of mean(log b_m(z0) + |c_m| / b_m(z0)),  c inferred from z0 to z1

    The scales are then multiplied by one factor that makes moves as long as two random images are
    apart: neighbours say where to go, not how far.
    """
    network = _fit_scales(session, model, latents, neighbours)
    with torch.no_grad():
        scales = torch.cat([network(chunk) for chunk in torch.split(latents, 10_000)]) + _SMALLEST
    operators = model.operators.operators.detach()
    return scales * factor_for_length(operators, latents, scales, far_length(latents))


def _fit_scales(
    session: Session, model: ManifoldAutoencoder, latents: Tensor, neighbours: Tensor
) -> CoefficientEncoder:
    generator = session.generator("neighbour scales")
    first, second = _draw_pairs(neighbours, generator)
    z0, z1 = latents[first.to(latents.device)], latents[second.to(latents.device)]
    sizes = model.infer_latents(z0, z1).coefficients.abs()
    with session.seeded("weights", "neighbour scales"):
        network = CoefficientEncoder(latents.shape[1], sizes.shape[1]).to(latents.device)
    optimiser = torch.optim.Adam(network.parameters(), _RATE)
    living = model.operators.living()
    for _ in range(_STEPS):
        rows = torch.randint(len(z0), (_BATCH,), generator=generator).to(latents.device)
        scales = network(z0[rows])[:, living] + _SMALLEST
        value = (scales.log() + sizes[rows][:, living] / scales).mean()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    return network.eval().requires_grad_(False)


def _draw_pairs(
    neighbours: Int[Tensor, "n k"], generator: torch.Generator
) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"]]:
    """Choose points and one neighbour of each."""
    paired = (neighbours >= 0).any(1).nonzero()[:, 0]
    first = paired[torch.randperm(len(paired), generator=generator)[:_MOST_PAIRS]]
    chosen = (torch.rand(neighbours.shape, generator=generator) * (neighbours >= 0))[first]
    return first, neighbours[first].gather(1, chosen.argmax(1, keepdim=True))[:, 0]


def _train(
    session: Session,
    model: ManifoldAutoencoder,
    encoder: CoefficientEncoder,
    latents: Float[Tensor, "n d"],
    outputs: tuple[int, ...],
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
        torch.arange(len(latents)),
        modules={"encoder": encoder},
        optimisers={"encoder": optimiser},
        generators={"coefficients": noise},
        items="points",
        explain=lambda: "lower coefficient_encoder.prior_scale or its learning_rate",
    )
    opinions = None
    for _ in loop:
        if opinions is None:  # asked for only if there is a step left to take
            opinions = ask_classifier(session, model.classify_latents, latents, outputs)
        (rows,) = loop.batch()
        points = latents[rows.to(latents.device)]
        scales = wrapped(points).float()
        # Drawn for the whole batch, so that it does not matter how many devices share it.
        uniform = torch.rand(loop.items_per_step, len(living), generator=noise)[share].to(scales)
        moved, _ = sample_moves(operators, points, scales, uniform=uniform)
        opinion = log_softmax(classify(moved), -1)
        change = kl_div(
            opinion, opinions[rows.to(opinions.device)], reduction="batchmean", log_target=True
        )
        wanted = prior[rows.to(prior.device)] if len(prior) > 1 else prior
        divergence = laplace_kl(scales, wanted)
        # Apart: the dead only follow the prior, and must not dilute its pull on the living.
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
    """Average over points and the chosen operators; zero if none is chosen."""
    return values[:, chosen].mean() if bool(chosen.any()) else values.new_zeros(())


def _closing_numbers(
    session: Session,
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    latents: Float[Tensor, "n d"],
) -> dict[str, Any]:
    living = model.operators.living()
    scales = model.scales_at(latents[spread_out(np.arange(len(latents)), 10_000)]).mean(0)
    return {
        **_measure_moves(model, dataset, session.generator(PHASE, "measure")),
        "mean_scale": float(scales[living].mean()) if bool(living.any()) else 0.0,
        "mean_scales": [round(v, 5) for v in scales.tolist()],
    }


def _measure_moves(
    model: ManifoldAutoencoder, dataset: ImageDataset, generator: torch.Generator
) -> dict[str, Any]:
    """Measure how often moves with encoded scales keep identity, and how far they go.

    One fixed scale that makes moves of the same length always stands beside them. Both are
    measured at the encoder's own mean length of move, at a length of 0.3, and as curves.
    """
    rows = held_out_rows(dataset)
    chunks = [dataset.batch(rows[i : i + 1000]) for i in range(0, len(rows), 1000)]
    latents = torch.cat([model.encode(images) for images in chunks])
    scales, operators = model.scales_at(latents), model.operators.operators.detach()
    classify = model.classify_latents
    own = measure_kept_identity(operators, latents, scales, classify, generator=generator)
    lengths, sources = (own.relative_move, *LENGTHS), {"coefficient encoder": scales}
    encoded, fixed = measure_kept_curves(
        operators, latents, sources, classify, lengths=lengths, generator=generator
    )
    usual = lengths.index(_USUAL_LENGTH)
    return {
        "kept_encoded": encoded.kept[0],
        "kept_fixed": fixed.kept[0],
        "move_length": encoded.length[0],
        "coverage": encoded.coverage[0],
        "kept_encoded_at_0.3": encoded.kept[usual],
        "kept_fixed_at_0.3": fixed.kept[usual],
        "curves": [curve.as_dict() for curve in (encoded, fixed)],
    }
