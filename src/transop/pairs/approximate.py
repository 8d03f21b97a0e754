"""Find nearest neighbours approximately with faiss, and measure how many it missed."""

import importlib.util
import logging

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.errors import UserError
from transop.pairs.neighbours import check_features, exact_neighbours_of
from transop.progress import Progress, silent

_LOG = logging.getLogger(__name__)

_BLOCK = 16384
_RECALL_SAMPLE = 500


def is_available() -> bool:
    """Say whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def approximate_neighbours(
    features: Float[Tensor, "n f"],
    n_neighbours: int,
    *,
    n_probes: int = 32,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[Int64[Tensor, "n k"], float]:
    """List near rows of every row by looking only into the closest cells of a partition.

    Args:
        features: one row per image.
        n_neighbours: k.
        n_probes: cells looked into per image; more finds more and takes longer.
        seed: decides the sample on which the recall is measured.
        progress: announces the blocks.

    Returns:
        Row numbers, nearest first, and the share of true neighbours among them, measured by
        exact search for a sample of rows.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            "search='faiss' needs the package faiss: pip install 'transop[faiss]', "
            "or leave search='auto'"
        ) from error
    check_features(features)
    n, dimension = features.shape
    n_cells = max(1, min(int(4 * np.sqrt(n)), n // 39))  # faiss asks for 39 rows per cell
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, n_cells)
    generator = torch.Generator().manual_seed(seed)
    training = torch.randperm(n, generator=generator)[: 64 * n_cells]
    index.train(_block(features, training.sort().values))
    for start in progress(range(0, n, _BLOCK), "indexing features", -(-n // _BLOCK)):
        index.add(_block(features, slice(start, start + _BLOCK)))
    index.nprobe = min(n_probes, n_cells)
    found = np.empty((n, n_neighbours), dtype=np.int64)
    for start in progress(range(0, n, _BLOCK), "nearest neighbours", -(-n // _BLOCK)):
        block = _block(features, slice(start, start + _BLOCK))
        _, near = index.search(block, n_neighbours + 1)
        found[start : start + _BLOCK] = _without_self(near, start)
    table = torch.from_numpy(found)
    sample = torch.randperm(n, generator=generator)[:_RECALL_SAMPLE]
    recall = _recall(features, table, sample)
    _LOG.info("approximate search found %.1f %% of the true neighbours", 100 * recall)
    return table, recall


def _block(features: Tensor, rows: Tensor | slice) -> Float[np.ndarray, "b f"]:
    return np.ascontiguousarray(features[rows].float().cpu().numpy())


def _without_self(near: Int64[np.ndarray, "b k+1"], first: int) -> Int64[np.ndarray, "b k"]:
    """Drop each row's own number, or the farthest if its own was not found."""
    own = near == np.arange(first, first + len(near))[:, None]
    own[~own.any(1), -1] = True
    kept: np.ndarray = near[~own].reshape(len(near), -1)
    return kept


def _recall(features: Tensor, table: Tensor, sample: Int64[Tensor, " s"]) -> float:
    truth = exact_neighbours_of(sample, features, table.shape[1])
    return float((table[sample][:, :, None] == truth[:, None, :]).any(1).double().mean())
