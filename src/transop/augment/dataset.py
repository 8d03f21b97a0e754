"""A data set that is encoded once and moved anew every time it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.utils.data import Dataset

from transop.augment.start import Start
from transop.errors import UserError
from transop.inputs import check_tensor

if TYPE_CHECKING:
    from transop.augment.transform import TransportAugment

_BLOCK = 1_000  # images that are floats at the same time while a data set is encoded

Item = Tensor | tuple[Tensor, Tensor]


class AugmentedDataset(Dataset[Item]):
    """Images whose latents are known, so that reading them costs no encoder.

    Give a DataLoader a sampler of batches, and it reads whole batches at once::

        batches = BatchSampler(RandomSampler(dataset), batch_size=256, drop_last=True)
        loader = DataLoader(dataset, sampler=batches, batch_size=None)

    Latents do not follow a model whose weights change afterwards: call ``for_dataset`` again.

    Attributes:
        augment: moves what is read, and says in its ``params`` what it did.
        images: as they were passed in.
        labels: one per image, or None.
        latents: of all images, in scaled units.
    """

    def __init__(
        self,
        augment: TransportAugment,
        images: Shaped[Tensor, "n c h w"],
        labels: Shaped[Tensor, "n ..."] | None = None,
    ) -> None:
        """Encode images; `TransportAugment.for_dataset` is the way to call this."""
        self.augment = augment
        self.images = check_tensor("images", images)
        if len(self.images) == 0:
            raise UserError("images: there are none; pass at least one")
        self.labels = None if labels is None else check_tensor("labels", labels)
        if self.labels is not None and len(self.labels) != len(self.images):
            raise UserError(
                f"there are {len(self.images)} images but {len(self.labels)} labels; pass as many"
            )
        names = augment.guard is not None and augment.guard.knows_labels(augment.model)
        known = self.labels if names else None
        blocks = [slice(i, i + _BLOCK) for i in range(0, len(self.images), _BLOCK)]
        self._start = Start.join(
            [augment.encode(self._floats(b), None if known is None else known[b]) for b in blocks]
        )

    @property
    def latents(self) -> Float[Tensor, "n d"]:
        """The latents of all images, in scaled units."""
        return self._start.latents

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int | Sequence[int] | Int[Tensor, " b"]) -> Item:
        """Move one image, or a batch of them; with the labels if there are any."""
        rows = torch.as_tensor(index)
        inside = (rows >= -len(self)) & (rows < len(self))
        if rows.is_floating_point() or rows.ndim > 1 or not bool(inside.all()):
            raise IndexError(f"index={index} is not in a data set of {len(self)} images")
        many = rows.reshape(-1)
        moved = self.augment.augment_encoded(self._start.rows(many), lambda: self._floats(many))
        moved = moved if rows.ndim else moved[0]
        return moved if self.labels is None else (moved, self.labels[rows])

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Read what a DataLoader asks for at once, to be put together by its ``collate_fn``."""
        batch = self[indices]
        if isinstance(batch, Tensor):
            return list(batch)
        return cast("list[Item]", list(zip(*batch, strict=True)))

    def _floats(self, rows: slice | Tensor) -> Float[Tensor, "b c h w"]:
        chosen = self.images[rows]
        return chosen.float() / 255 if chosen.dtype == torch.uint8 else chosen
