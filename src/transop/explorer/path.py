"""Walk from one image to another and beyond, beside the straight line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.explorer.opened import OpenRun
from transop.explorer.transform import probabilities
from transop.operators import transport_path

FROM, TO = -1.0, 3.0
_N_TIMES = 65


@dataclass(frozen=True)
class Way:
    """Images and opinions along one way through latent space."""

    frames: Float[np.ndarray, "t c h w"]
    probabilities: Float[np.ndarray, "t k"] | None


@dataclass(frozen=True)
class Walk:
    """A path along the operators, and the straight line for comparison.

    Attributes:
        times: from -1 to 3; 0 is the start, 1 the end.
        path: along the inferred coefficients.
        line: along the straight line in latent space.
        coefficients: of every operator, in the dictionary's order.
        residual: distance from the end at t = 1, as a share of the end's latent length.
        converged: whether inference settled.
    """

    times: Float[np.ndarray, " t"]
    path: Way
    line: Way
    coefficients: Float[np.ndarray, " m"]
    residual: float
    converged: bool

    def position(self, t: float) -> int:
        """Find the frame nearest to a time."""
        return int(np.abs(self.times - t).argmin())


def walk(run: OpenRun, start: Float[Tensor, "c h w"], end: Float[Tensor, "c h w"]) -> Walk:
    """Infer the coefficients between two images and follow them from t = -1 to 3."""
    model = run.model
    points = model.encode(torch.stack([start, end]))
    z0, z1 = points[:1], points[1:]
    found = model.infer_latents(z0, z1)
    times = torch.linspace(FROM, TO, _N_TIMES).to(z0)
    with torch.no_grad():
        along = transport_path(model.operators.operators, found.coefficients, z0, times)[0]
    straight = z0 + times[:, None] * (z1 - z0)
    return Walk(
        times.cpu().numpy(),
        _way(run, along),
        _way(run, straight),
        found.coefficients[0].cpu().numpy(),
        float(found.residual[0]),
        bool(found.converged[0]),
    )


def warm_up(run: OpenRun) -> None:
    """Walk once for nobody, so that nobody waits for the solver's first compilation."""
    walk(run, torch.zeros(run.model.image_shape), torch.ones(run.model.image_shape))


def _way(run: OpenRun, points: Float[Tensor, "t d"]) -> Way:
    finite = torch.isfinite(points).all(-1, keepdim=True)
    points = torch.where(finite, points, torch.zeros_like(points))
    return Way(run.model.decode(points).cpu().numpy(), probabilities(run, points))


def notable_classes(walked: Walk) -> list[int]:
    """Choose the classes whose probability is worth a curve: at the start, and at the end."""
    if walked.path.probabilities is None or walked.line.probabilities is None:
        return []
    start, end = walked.position(0.0), walked.position(1.0)
    # The straight line passes through the end itself, which the path only approaches.
    ends = (walked.path.probabilities[start], walked.line.probabilities[end])
    return list(dict.fromkeys(int(shares.argmax()) for shares in ends))
