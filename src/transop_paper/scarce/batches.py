"""Training images of a row: moved, changed by fixed augmentations, or as they are."""

import functools
import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from transop.augment import TransportAugment
from transop.errors import UserError
from transop.progress import Progress, silent
from transop_paper.scarce.moved import EqualNoise
from transop_paper.scarce.rows import Row

_DISTORTED_AT_ONCE = 250  # images whose fields stay in the processor's cache


def distort_elastically(
    images: Float[Tensor, "b c h w"],
    *,
    alpha: float,
    sigma: float,
    generator: torch.Generator,
) -> Float[Tensor, "b c h w"]:
    """Shift every pixel by a smooth random field, as Simard et al. (2003) do.

    Each component of the field is uniform noise in [-1, 1] blurred by a Gaussian and multiplied
    by ``alpha``; outside the image everything is zero. The blur is two matrix products, which is
    an order of magnitude faster than convolving and gives what kornia's transform gives.
    """
    n, _, height, width = images.shape
    if n == 0:
        return images
    stream = np.random.SFC64(int(torch.randint(2**62, (), generator=generator)))
    rows, columns = _blur(height, sigma).to(images), _blur(width, sigma).mT.to(images)
    pixels = torch.tensor([2 * alpha / width, 2 * alpha / height]).to(images)[:, None, None]
    identity = torch.eye(2, 3).to(images)[None]
    still = affine_grid(identity, [1, 1, height, width], align_corners=False)
    still = still.permute(0, 3, 1, 2).contiguous()  # as the noise, or adding them is slow
    warped = torch.empty_like(images)
    for start in range(0, n, _DISTORTED_AT_ONCE):
        part = images[start : start + _DISTORTED_AT_ONCE]
        noise = draw_noise(stream, (len(part), 2, height, width)).to(images)
        grid = torch.addcmul(still, rows @ noise @ columns, pixels).permute(0, 2, 3, 1)
        warped[start : start + _DISTORTED_AT_ONCE] = grid_sample(part, grid, align_corners=False)
    return warped.clamp_(0, 1)


def draw_noise(stream: np.random.SFC64, shape: tuple[int, ...]) -> Tensor:
    """Draw uniform noise in [-1, 1) of 16 bits, four numbers from every 64 random bits.

    Drawing whole floats from a ``torch.Generator`` would take longer than all the rest.
    """
    n = math.prod(shape)
    bits = stream.random_raw(-(-n // 4)).view(np.int16)[:n]
    return torch.from_numpy(bits).float().div_(2**15).reshape(shape)


@functools.cache
def _blur(size: int, sigma: float) -> Float[Tensor, "size size"]:
    """Make the matrix that blurs a column, the Gaussian cut off at three sigma."""
    places = torch.arange(size, dtype=torch.float64)
    distance = (places[:, None] - places).abs()
    reach = int(3 * sigma + 0.5)
    weights = (-(distance**2) / (2 * sigma**2)).exp() * (distance <= reach)
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    whole = (-(offsets**2) / (2 * sigma**2)).exp().sum()
    return (weights / whole).float()


def rand_augment(
    images: Float[Tensor, "b c h w"], *, n: int, m: int, generator: torch.Generator
) -> Float[Tensor, "b c h w"]:
    """Apply ``n`` different operations of kornia's RandAugment to each image.

    The paper's modification for grey images: three equal channels go in, and of what comes out
    one channel is picked at random. Operations are drawn for each image, not for the whole batch
    as kornia does, so that a batch may have any size.

    Their magnitude ``m`` is above 0 and below 30.
    """
    operations = _operations(m)
    if not 1 <= n <= len(operations):
        raise UserError(f"n = {n} must be from 1 to {len(operations)}, the number of operations")
    n_images, channels = images.shape[:2]
    colours = images.expand(-1, 3, -1, -1).clone()
    orders = torch.rand(n_images, len(operations), generator=generator).argsort(1)
    # Kornia draws from torch's global randomness: seed it for these calls only.
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for turn in range(n):
            for number, operation in enumerate(operations):
                rows = (orders[:, turn] == number).nonzero()[:, 0]
                if len(rows):
                    colours[rows] = operation(colours[rows]).clamp(0, 1)
    if channels == 3:
        return colours
    picked = torch.randint(3, (n_images,), generator=generator)
    return colours[torch.arange(n_images), picked].unsqueeze(1)


@functools.cache
def _operations(m: int) -> list[Any]:
    from kornia.augmentation.auto import RandAugment
    from kornia.augmentation.auto.rand_augment.rand_augment import default_policy

    if not 0 < m < 30:
        raise UserError(f"m = {m} must be above 0 and below 30")
    return [RandAugment(n=1, m=m, policy=[single]) for single in default_policy]


_AT_ONCE = 2_500


class TrainingImages:
    """Makes the training images of one row from the labelled images of one seed.

    Moved images come from a pool that is drawn once, a share of ``1 / n`` from each of the ``n``
    labelled images, or are drawn anew every time; the fixed augmentation is always drawn anew.

    Attributes:
        kept: share of pool images whose move the guard accepted (1 without guard); the others
            are the labelled image itself.
    """

    def __init__(
        self,
        row: Row,
        images: Float[Tensor, "n c h w"],
        labels: Int[Tensor, " n"],
        *,
        augment: TransportAugment | EqualNoise | None = None,
        real_share: float = 1.0,
        pool_size: int = 0,
        generator: torch.Generator,
        progress: Progress = silent,
    ) -> None:
        self._row, self._images, self._labels = row, images, labels
        self._augment, self._generator = augment, generator
        self._real_share = real_share if augment is not None else 1.0
        self.kept = 1.0
        self._pool: Tensor | None = None
        self._latents: Tensor | None = None
        if augment is not None:
            self._latents = augment.model.encode(images)
            if pool_size:
                self._pool = self._fill(max(1, pool_size // len(images)), progress)

    def __call__(self, n: int) -> tuple[Float[Tensor, "n c h w"], Int[Tensor, " n"]]:
        """Give ``n`` images, drawn with replacement and augmented, and their labels."""
        rows = torch.randint(len(self._images), (n,), generator=self._generator)
        batch = self._images[rows]
        if self._augment is not None:
            moving = torch.rand(n, generator=self._generator) >= self._real_share
            batch[moving] = self._moved(rows[moving])
        return self._distort(batch), self._labels[rows]

    def _distort(self, batch: Tensor) -> Tensor:
        row = self._row
        if row.fixed == "elastic":
            return distort_elastically(
                batch, alpha=row.alpha, sigma=row.sigma, generator=self._generator
            )
        if row.fixed == "randaugment":
            return rand_augment(batch, n=row.n, m=row.m, generator=self._generator)
        return batch

    def _moved(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        if self._pool is None:
            return self._move(rows)[0]
        copies = torch.randint(self._pool.shape[1], rows.shape, generator=self._generator)
        return self._pool[rows, copies].float().div_(255)

    def _move(self, rows: Int[Tensor, " n"]) -> tuple[Float[Tensor, "n c h w"], float]:
        assert self._augment is not None
        assert self._latents is not None
        named = self._row.labels != "none"  # groups of the neighbour graph are not the labels
        names = self._labels[rows].to(self._latents.device) if named else None
        pictures, accepted = self._augment.sample(self._latents[rows], names)
        pictures, accepted = pictures.cpu(), accepted.cpu()
        pictures[~accepted] = self._images[rows[~accepted]]
        return pictures, float(accepted.float().mean())

    def _fill(self, n_copies: int, progress: Progress) -> Tensor:
        """Draw the pool, in bytes to save memory: (n, copies, c, h, w)."""
        n, shape = len(self._images), self._images.shape[1:]
        pool = torch.empty(n * n_copies, *shape, dtype=torch.uint8)
        rows, kept = torch.arange(n).repeat_interleave(n_copies), 0.0
        starts = range(0, len(rows), _AT_ONCE)
        for start in progress(starts, "moving images", len(starts)):
            part = rows[start : start + _AT_ONCE]
            pictures, share = self._move(part)
            pool[start : start + _AT_ONCE] = pictures.mul(255).round_().to(torch.uint8)
            kept += share * len(part) / len(rows)
        self.kept = kept
        return pool.reshape(n, n_copies, *shape)
