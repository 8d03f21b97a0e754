"""Find nearest neighbours approximately with faiss, and measure what was missed."""

import logging
import secrets
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

from transop.extras import missing_modules, require
from transop.files import make_folder
from transop.pairs.features import collect_rows
from transop.pairs.neighbours import check_features, exact_neighbours_of
from transop.pairs.pixel_rows import PixelRows
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

_LOG = logging.getLogger(__name__)

_BLOCK = 4096
_SHARD_BYTES = 2**25  # of codes held in memory before they are written
_RECALL_SAMPLE = 500
_ROWS_PER_CENTRE = 39  # faiss asks for so many to place one


def is_available() -> bool:
    """Say whether faiss is installed."""
    return not missing_modules("faiss")


def approximate_neighbours(
    features: Float[Tensor, "n f"] | PixelRows,
    n_neighbours: int,
    *,
    n_probes: int = 32,
    seed: int = 0,
    scratch: Path | None = None,
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> tuple[Int64[Tensor, "n k"], float]:
    """List near rows of every row by looking only into the closest cells of a partition.

    This is faiss's inverted-file index (IVF), mapped from disk in parts: memory does not grow
    with the number of rows but for some numbers per row; the disk holds the features once more.

    Args:
        features: one row per image.
        n_neighbours: k.
        n_probes: cells looked into per row; more finds more and takes longer.
        seed: decides the rows from which cells are made and on which the recall is measured.
        scratch: a folder for the index; the system's own if not given.
        ranks: the processes that share the search; all of them get all neighbours.
        progress: announces the blocks.

    Returns:
        Row numbers, nearest first, -1 where the cells held too few, and the share of true
        neighbours among them, measured by exact search for a sample of rows.
    """
    faiss = _faiss()
    check_features(features)
    n = len(features)
    with _shared_folder(scratch, ranks) as folder:
        if ranks.writes:
            _write_shards(faiss, features, seed, folder, progress)
        ranks.wait()
        index = _map_shards(faiss, folder, n_probes)
        ranks.wait()  # what is mapped no longer needs its name: the folder may go

    def search(start: int) -> Tensor:
        queries = _rows(features, slice(start, start + _BLOCK))
        _, near = index.search(queries, n_neighbours + 1)
        return torch.from_numpy(_without_own(near, start))

    starts = range(0, n, _BLOCK)
    blocks = progress(ranks.in_turns(starts, search), "nearest neighbours", len(starts))
    table = collect_rows(blocks, n)
    sample = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:_RECALL_SAMPLE]
    recall = _recall(features, table, sample)
    _LOG.info("approximate search found %.1f %% of the true neighbours", 100 * recall)
    return table, recall


def _faiss() -> Any:
    require("faiss", "search='faiss'", "or leave search='auto'")
    import faiss

    return faiss


def _write_shards(
    faiss: Any, features: Tensor | PixelRows, seed: int, folder: Path, progress: Progress
) -> None:
    """Place the cells, and write all rows to disk, a part of them at a time."""
    n, dimension = features.shape
    n_cells = max(1, min(int(2 * np.sqrt(n)), n // _ROWS_PER_CENTRE))
    # Pixel values, 0 to 255, are exact in half precision.
    halves = isinstance(features, PixelRows) or features.dtype == torch.float16
    index = faiss.index_factory(dimension, f"IVF{n_cells},{'SQfp16' if halves else 'Flat'}")
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(n, generator=generator)[: _ROWS_PER_CENTRE * n_cells].sort().values
    index.train(_rows(features, chosen))
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


def _without_own(near: Int64[np.ndarray, "b k+1"], start: int) -> Int64[np.ndarray, "b k"]:
    """Take each row itself out of the list of its nearest rows."""
    own = near == np.arange(start, start + len(near))[:, None]
    own[~own.any(1), -1] = True  # so many equal rows that its own is not among the nearest
    return np.asarray(near[~own].reshape(len(near), -1))


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
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def _rows(features: Tensor | PixelRows, chosen: Tensor | slice) -> Float[np.ndarray, "b f"]:
    return np.ascontiguousarray(features[chosen].float().cpu().numpy())


def _recall(features: Tensor | PixelRows, table: Tensor, sample: Int64[Tensor, " s"]) -> float:
    truth = exact_neighbours_of(sample, features, table.shape[1])
    return float((table[sample][:, :, None] == truth[:, None, :]).any(1).double().mean())
