"""Images seen as rows of pixel values, read from the data set a block at a time."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PixelRows:
    """A table of features that takes no memory: its rows are the images themselves.

    Attributes:
        images: of the data set, in memory or mapped.
        rows: which of them are rows of the table, in order.
    """

    images: UInt8[np.ndarray, "n c h w"]
    rows: Int64[Tensor, " r"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and pixel values per row."""
        return len(self.rows), int(np.prod(self.images.shape[1:]))

    def __getitem__(self, chosen: Tensor | slice) -> Float[Tensor, "b f"]:
        """Give some rows, as floats from 0 to 255."""
        pixels = np.array(self.images[self.rows[chosen].numpy()])
        return torch.from_numpy(pixels).flatten(1).float()
