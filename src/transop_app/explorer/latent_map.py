"""The held-out images as points of a plane."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from transop.errors import UserError
from transop_app.explorer.opened import ExploredRun


@dataclass(frozen=True)
class LatentMap:
    """Latent points seen from their two widest sides."""

    points: Float[np.ndarray, "n 2"]  # principal components 1 and 2
    share: float  # of the variance, what these two show
    labels: Int[np.ndarray, " n"] | None  # class of every point, or None
    # encoded scale of every living operator at every point, or None
    scales: Float[np.ndarray, "n m"] | None


def draw_map(run: ExploredRun) -> LatentMap:
    """Project the latent points of held-out images onto their principal components."""
    if run.shown_latents is None or run.images is None:
        raise UserError(run.missing)
    latents = run.shown_latents.cpu().numpy().astype(np.float64)
    centred = latents - latents.mean(0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    points = centred @ axes[:2].T
    if points.shape[1] < 2:  # a single latent dimension lies on a line
        points = np.concatenate([points, np.zeros_like(points)], axis=1)[:, :2]
    share = float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-12))
    labels = None if run.images.labels is None else run.images.labels[run.shown_rows]
    scales = None
    if run.model.coefficient_encoder is not None:
        scales = run.model.scales_at(run.shown_latents).cpu().numpy()[:, run.living_operators]
    return LatentMap(points, share, labels, scales)
