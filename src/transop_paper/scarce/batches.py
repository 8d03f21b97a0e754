"""Training images of a row: labelled images, moved, distorted, or as they are."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.augment import TransportAugment
from transop.progress import Progress, silent
from transop_paper.scarce.fixed import distort_elastically, rand_augment
from transop_paper.scarce.rows import Row

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
        augment: TransportAugment | None = None,
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
        names = self._labels[rows].to(self._latents.device)
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
