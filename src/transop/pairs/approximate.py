"""Find nearest neighbours approximately with faiss, and measure what was missed."""

import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.extras import require
from transop.files import make_folder
from transop.pairs.features import collect_rows
from transop.pairs.neighbours import (
    FeatureRows,
    PixelRows,
    check_features,
    exact_neighbours_of,
    without_own,
)
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

_LOG = logging.getLogger(__name__)

_BLOCK = 4096
_SHARD_BYTES = 2**25  # of codes held in memory before they are written
_RECALL_SAMPLE = 500
_ROWS_PER_CENTRE = 39  # faiss asks for so many to place one


def approximate_neighbours(
    features: FeatureRows,
    n_neighbours: int,
    *,
    n_probes: int = 32,
    scratch: Path | None = None,
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> tuple[Int64[Tensor, "n k"], float]:
    """List near rows of every row by looking only into the closest cells of a partition.

    This is faiss's inverted-file index (IVF), mapped from disk in parts: memory does not grow
    with the number of rows but for some numbers per row; the disk holds the features once more,
    in a scratch folder. All processes share the search and get all neighbours. More probes (cells
    looked into per row) find more and take longer.

    Returns:
        Row numbers, nearest first, -1 where the cells held too few, and the share of true
        neighbours among them, measured by exact search for a sample of rows.
    """
    require("faiss", "search='faiss'", "or leave search='auto'")
    import faiss

    check_features(features)
    n = len(features)
    with _shared_folder(scratch, ranks) as folder:
        if ranks.writes:
            _write_shards(faiss, features, folder, progress)
        ranks.wait()
        index = _map_shards(faiss, folder, n_probes)
        ranks.wait()  # what is mapped no longer needs its name: the folder may go

    def search(start: int) -> Tensor:
        queries = _rows(features, slice(start, start + _BLOCK))
        _, near = index.search(queries, n_neighbours + 1)
        return torch.from_numpy(without_own(near, np.arange(start, start + len(near))))

    starts = range(0, n, _BLOCK)
    blocks = progress(ranks.in_turns(starts, search), "nearest neighbours", len(starts))
    table = collect_rows(blocks, n)
    sample = _sample(n, _RECALL_SAMPLE)
    truth = exact_neighbours_of(sample, features, n_neighbours)
    recall = float((table[sample][:, :, None] == truth[:, None, :]).any(1).double().mean())
    _LOG.info("approximate search found %.1f %% of the true neighbours", 100 * recall)
    return table, recall


def _write_shards(faiss: Any, features: FeatureRows, folder: Path, progress: Progress) -> None:
    """Place the cells, and write all rows to disk, a part of them at a time."""
    n, dimension = features.shape
    n_cells = max(1, min(int(2 * np.sqrt(n)), n // _ROWS_PER_CENTRE))
    # Pixel values, 0 to 255, are exact in half precision.
    halves = isinstance(features, PixelRows) or features.dtype == torch.float16
    index = faiss.index_factory(dimension, f"IVF{n_cells},{'SQfp16' if halves else 'Flat'}")
    index.train(_rows(features, _sample(n, _ROWS_PER_CENTRE * n_cells).sort().values))
    per_shard = max(_BLOCK, _SHARD_BYTES // index.code_size // _BLOCK * _BLOCK)
    firsts = range(0, n, per_shard)
    for number, first in enumerate(progress(firsts, "indexing features", len(firsts))):
        for start in range(first, min(first + per_shard, n), _BLOCK):
            rows = _rows(features, slice(start, min(start + _BLOCK, first + per_shard)))
            index.add_with_ids(rows, np.arange(start, start + len(rows)))
        faiss.write_index(index, str(folder / f"shard-{number:06}"))
        index.reset()


def _map_shards(faiss: Any, folder: Path, n_probes: int) -> Any:
    """Open all parts as one index whose rows stay on disk."""
    parts = [faiss.read_index(str(p), faiss.IO_FLAG_MMAP) for p in sorted(folder.iterdir())]
    threaded, successive_ids = False, False
    n_cells = parts[0].nlist
    index = faiss.IndexShardsIVF(parts[0].quantizer, n_cells, threaded, successive_ids)
    for part in parts:
        part.nprobe = min(n_probes, n_cells)
        index.add_shard(part)
    return index


@contextmanager
def _shared_folder(scratch: Path | None, ranks: Ranks) -> Iterator[Path]:
    """Give all processes of a machine one empty folder; it is gone afterwards."""
    parent = Path(tempfile.gettempdir()) if scratch is None else scratch
    number = int(ranks.exchange(torch.tensor([[secrets.randbits(62)]]))[0])
    folder = parent / f".index-{socket.gethostname()}-{number:x}"
    if ranks.writes:
        make_folder(folder)
    try:
        yield folder
    finally:
        if ranks.writes:
            shutil.rmtree(folder)


def _sample(n: int, size: int) -> Int64[Tensor, " s"]:
    """Choose rows at random, always the same."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:size]


def _rows(features: FeatureRows, chosen: Tensor | slice) -> Float[np.ndarray, "b f"]:
    return np.ascontiguousarray(features[chosen].float().cpu().numpy())
