"""The path from one image to another and beyond, beside the straight line."""

import importlib
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.operators import transport_path
from transop_app.explorer.opened import ExploredRun
from transop_app.explorer.transform import probabilities

FROM, TO = -1.0, 3.0
_N_TIMES = 65
_MOST_CURVES = 4


@dataclass(frozen=True)
class Frames:
    """Images along a path or a line in latent space, with their class probabilities."""

    frames: Float[np.ndarray, "t c h w"]
    probabilities: Float[np.ndarray, "t k"] | None


@dataclass(frozen=True)
class Track:
    """The latent points of the path and the line: small enough to keep for every session."""

    times: Float[np.ndarray, " t"]  # from -1 to 3; 0 is the start, 1 the end
    path: Float[np.ndarray, "t d"]  # points along the inferred coefficients
    line: Float[np.ndarray, "t d"]  # points along the straight line

    def position(self, t: float) -> int:
        """Find the point nearest to a time."""
        return int(np.abs(self.times - t).argmin())


@dataclass(frozen=True)
class FoundPath:
    """A path along the operators, and the straight line for comparison."""

    track: Track  # the points of both
    path: Frames  # along the inferred coefficients
    line: Frames  # along the straight line in latent space
    coefficients: Float[np.ndarray, " m"]  # of every operator, in the dictionary's order
    residual: float  # distance from the end at t = 1, as a share of the end's latent length
    converged: bool  # whether inference settled


def find_path(
    run: ExploredRun, start: Float[Tensor, "c h w"], end: Float[Tensor, "c h w"]
) -> FoundPath:
    """Infer the coefficients between two images and follow them from t = -1 to 3."""
    model = run.model
    points = model.encode(torch.stack([start, end]))
    z0, z1 = points[:1], points[1:]
    found = model.infer_latents(z0, z1)
    times = torch.linspace(FROM, TO, _N_TIMES).to(z0)
    with torch.no_grad():
        along = transport_path(model.operators.operators, found.coefficients, z0, times)[0]
    # Points that ran away to infinity are put at the origin, so that they can be decoded.
    along = torch.where(along.isfinite().all(-1, keepdim=True), along, 0.0)
    straight = z0 + times[:, None] * (z1 - z0)
    track = Track(*(part.cpu().numpy() for part in (times, along, straight)))
    return FoundPath(
        track,
        _frames(run, along),
        _frames(run, straight),
        found.coefficients[0].cpu().numpy(),
        float(found.residual[0]),
        bool(found.converged[0]),
    )


def warm_up(run: ExploredRun) -> None:
    """Do once for nobody what takes seconds the first time, so that nobody waits for it.

    That is Matplotlib, which Gradio asks for at the first touch of a slider, and the solver's
    compilation.
    """
    importlib.import_module("transop.plotting")
    find_path(run, torch.zeros(run.model.image_shape), torch.ones(run.model.image_shape))


def frames_at(
    run: ExploredRun, track: Track, t: float
) -> tuple[float, Float[np.ndarray, "c h w"], Float[np.ndarray, "c h w"]]:
    """Decode path and line at the time nearest to ``t``; give that time and both images."""
    at = track.position(t)
    points = torch.from_numpy(np.stack([track.path[at], track.line[at]]))
    path, line = run.model.decode(points).cpu().numpy()
    return float(track.times[at]), path, line


def _frames(run: ExploredRun, points: Float[Tensor, "t d"]) -> Frames:
    return Frames(run.model.decode(points).cpu().numpy(), probabilities(run, points))


def notable_classes(found: FoundPath) -> list[int]:
    """Choose the classes worth a curve: at the start, at the end, and those that win in between."""
    if found.path.probabilities is None or found.line.probabilities is None:
        return []
    start, end = found.track.position(0.0), found.track.position(1.0)
    # The straight line passes through the end itself, which the path only approaches.
    ends = (found.path.probabilities[start], found.line.probabilities[end])
    winners = np.concatenate([found.path.probabilities, found.line.probabilities]).argmax(1)
    wins = np.bincount(winners)
    others = [int(k) for k in wins.argsort(kind="stable")[::-1] if wins[k]]
    chosen = dict.fromkeys([*(int(shares.argmax()) for shares in ends), *others])
    return list(chosen)[:_MOST_CURVES]
