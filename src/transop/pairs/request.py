"""What a caller asks a pair strategy for."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from transop.data import ImageDataset
from transop.errors import DataError
from transop.pairs.cache import PairCache
from transop.pairs.features import FeatureExtractor, ImageFunction
from transop.pairs.given import Given, Positions
from transop.pairs.source import PairSource
from transop.progress import Progress
from transop.sharing import Ranks

Features = str | ImageFunction | np.ndarray | Tensor
Search = Literal["auto", "exact", "faiss"]


@dataclass(frozen=True)
class PairRequest:
    """The images to pair and everything that decides how; see `transop.pairs.build_pairs`.

    ``rows`` are the data set indices of the split.
    """

    dataset: ImageDataset
    rows: Int64[Tensor, " n"]
    n_neighbours: int
    features: Features
    weights: Path | None
    input_size: int | None
    latents: np.ndarray | Tensor | None
    given: Given | None
    search: Search
    cache_dir: Path
    device: torch.device
    ranks: Ranks
    progress: Progress

    @property
    def cache(self) -> PairCache:
        """Where features and neighbour tables are kept."""
        return PairCache(self.cache_dir / "pairs", self.ranks)

    @property
    def positions(self) -> Positions:
        """The correspondence between the data set and the split."""
        return Positions(self.rows.numpy(), len(self.dataset))

    def content_key(self) -> dict[str, Any]:
        """Name the images of the split for the cache."""
        rows = hash_tensor(self.rows)
        return {"images": self.dataset.content_hash(), "rows": rows}

    def labels(self, strategy: str) -> Int64[np.ndarray, " n"]:
        """Give the labels of the split, or explain why the strategy needs them."""
        if self.dataset.labels is None:
            raise DataError(
                f"strategy={strategy!r} needs labels and data set "
                f"{self.dataset.meta.name!r} has none; choose 'perceptual'"
            )
        return np.asarray(self.dataset.labels[self.rows.numpy()])


Strategy = Callable[[PairRequest], PairSource]
Backbone = Callable[[int, Path | None, Path], FeatureExtractor]


def hash_tensor(tensor: Tensor) -> str:
    """Condense a tensor's values to a short text."""
    flat = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{flat.dtype}{tuple(flat.shape)}".encode())
    digest.update(flat.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]
