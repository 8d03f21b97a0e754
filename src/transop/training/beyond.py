"""Points on extrapolated paths, and the images that the decoder should show there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.data import ImageDataset
from transop.model import ManifoldAutoencoder
from transop.operators import transport
from transop.pairs import PairSource
from transop.training.autoencoder import load_images
from transop.training.session import Session

REACH = 2.6  # how far paths are followed, in multiples of their length
SPARSITY_WEIGHT = 0.01  # of these paths

# Takes starting points, end points and a sparsity weight; gives coefficients.
Infer = Callable[[Tensor, Tensor, float], Tensor]


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

    def __init__(
        self,
        session: Session,
        model: ManifoldAutoencoder,
        dataset: ImageDataset,
        pairs: PairSource,
        *,
        latents: Float[Tensor, "n d"],
        infer: Infer,
    ) -> None:
        """Prepare to draw paths.

        Args:
            session: the run.
            model: follows the paths, with network and operators as they are then.
            dataset: the images.
            pairs: tell which images are alike.
            latents: of the training images, in scaled units; only compared with.
            infer: finds coefficients.
        """
        self._session, self._model, self._infer = session, model, infer
        self._dataset, self._pairs, self._latents = dataset, pairs, latents
        self._rows = dataset.splits["train"]

    @torch.no_grad()
    def sample(
        self, step: int, batch_size: int
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b c h w"]] | None:
        """Give raw latents beyond the ends of paths and an image for each.

        Args:
            step: decides what is drawn, so that a resumed run draws the same.
            batch_size: of all devices together; each gets its share.

        Returns:
            None, on every device, if the network gives values that are not finite on any of them.
        """
        generator = self._session.generator("fine_tuning", "beyond", step)
        drawn = torch.randint(len(self._rows), (2 * batch_size,), generator=generator)
        around = self._pairs.around(drawn[batch_size:], generator)
        times = 1 + (REACH - 1) * torch.rand(batch_size, 1, generator=generator)
        ranks = self._session.ranks
        share = slice(ranks.rank, None, ranks.n_ranks)
        starts, ends = (half[share] for half in drawn.chunk(2))
        raw = self._model.autoencoder.encode(self._images(torch.cat([starts, ends])))
        # All devices must agree, or only some of them would report numbers of this step.
        if self._session.any_device(not bool(torch.isfinite(raw).all())):
            return None
        points = self._follow(raw, times[share].to(raw.device))
        nearest = self._nearest(points, around[share])
        return points * self._model.latent_scale, self._images(nearest)

    def _follow(
        self, raw: Float[Tensor, "n d"], times: Float[Tensor, "b 1"]
    ) -> Float[Tensor, "b d"]:
        """Carry the first half of some latents to the second half and on, in scaled units."""
        z0, z1 = (raw.float() / self._model.latent_scale).chunk(2)
        coefficients = self._infer(z0, z1, SPARSITY_WEIGHT)
        return transport(self._model.operators.operators.detach(), times * coefficients, z0)

    def _nearest(
        self, points: Float[Tensor, "b d"], around: Int64[Tensor, "b k"]
    ) -> Int64[Tensor, " b"]:
        """Choose, for every point, the image whose latent is nearest."""
        distances = (self._latents[around] - points.cpu()[:, None]).square().sum(-1)
        return around.gather(1, distances.argmin(1, keepdim=True))[:, 0]

    def _images(self, positions: Int64[Tensor, " b"]) -> Float[Tensor, "b c h w"]:
        rows: np.ndarray = self._rows[positions.numpy()]
        return load_images(self._dataset, rows, self._session)
