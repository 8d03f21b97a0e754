"""How far each operator goes between neighbours: the shape of a prior that no label has touched."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.evaluation import factor_for_length, far_length
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder
from transop.training.session import Session

PURPOSE = "neighbour scales"
_MOST_PAIRS = 10_000
STEPS, _BATCH, _RATE = 600, 300, 2e-3
_SMALLEST = 1e-3  # an operator that no neighbour needs still has a scale

Scales = Float[Tensor, "n m"]


def neighbour_scales(
    session: Session,
    model: ManifoldAutoencoder,
    latents: Float[Tensor, "n d"],
    neighbours: Int[Tensor, "n k"],
) -> Scales:
    """Give the Laplace scale of every coefficient between a point and its neighbours.

    [LIKELIHOOD]  min over b of mean(log b_m(z0) + |c_m| / b_m(z0)),  c inferred from z0 to z1

    The scales are then multiplied by one factor that makes moves as long as two random images are
    apart: neighbours say where to go, not how far.

    Returns:
        One row of scales per point.
    """
    network = _fit(session, model, latents, neighbours)
    with torch.no_grad():
        scales = torch.cat([network(chunk) for chunk in torch.split(latents, 10_000)]) + _SMALLEST
    operators = model.operators.operators.detach()
    return scales * factor_for_length(operators, latents, scales, far_length(latents))


def _fit(
    session: Session, model: ManifoldAutoencoder, latents: Tensor, neighbours: Tensor
) -> CoefficientEncoder:
    generator = session.generator(PURPOSE)
    first, second = _draw_pairs(neighbours, generator)
    z0, z1 = latents[first.to(latents.device)], latents[second.to(latents.device)]
    sizes = model.infer_latents(z0, z1).coefficients.abs()
    with session.seeded("weights", PURPOSE):
        network = CoefficientEncoder(latents.shape[1], sizes.shape[1]).to(latents.device)
    optimiser = torch.optim.Adam(network.parameters(), _RATE)
    living = model.operators.living()
    for _ in range(STEPS):
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
