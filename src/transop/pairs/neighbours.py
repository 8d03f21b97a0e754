"""Find the nearest neighbours of every row: exactly, or approximately with faiss."""

import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement, groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from transop.errors import UserError
from transop.extras import require
from transop.files import make_folder
from transop.pairs.features import collect_rows
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

_LOG = logging.getLogger(__name__)

# 2,048 x 2,048 distances are 16 MB: the matrix product runs at full speed, the table stays small.
_BLOCK = 2048
MISSING = -1
_SHARD_BYTES = 2**25  # of codes held in memory before they are written
_RECALL_SAMPLE = 500
_ROWS_PER_CENTRE = 39  # faiss asks for so many to place one


@dataclass(frozen=True, eq=False)
class PixelRows:
    """A table of features that takes no memory: its rows are some of a data set's images."""

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


FeatureRows = Float[Tensor, "n f"] | PixelRows


def nearest_neighbours(
    features: FeatureRows,
    n_neighbours: int,
    *,
    groups: Int64[np.ndarray, " n"] | None = None,
    device: torch.device | str = "cpu",
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> Int64[Tensor, "n k"]:
    """List the nearest other rows of every row, by Euclidean distance, nearest first.

    [PAIR]  x1 = argmin over x of ||r(x0) - r(x)||^2, the k smallest instead of one

    The search is exact, compares every two rows once and keeps one block of distances at a time:
    its memory grows with n, never with n squared. A row is never its own neighbour, even when
    other rows equal it; -1 fills the end of a row whose group has too few members.

    Args:
        features: r(x), one row per image; half precision is widened block by block.
        n_neighbours: k.
        groups: a group number per row; neighbours then come from the row's own group.
        device: where distances are computed.
        ranks: the processes that share the work; all of them get all neighbours.
        progress: announces the blocks.
    """
    check_features(features)
    members = _searched_together(len(features), n_neighbours, groups)
    found = torch.full((len(features), n_neighbours), MISSING, dtype=torch.int64)
    centre = _blockwise_mean(features)
    groups_in_turn = (_search(features, rows, found, centre, device, ranks) for rows in members)
    n_blocks = [-(-len(rows) // _BLOCK) for rows in members]
    n_steps = -(-sum(n * (n + 1) // 2 for n in n_blocks) // ranks.n_ranks)
    for _ in progress(chain.from_iterable(groups_in_turn), "nearest neighbours", n_steps):
        pass
    return found


def exact_neighbours_of(
    queries: Int64[Tensor, " q"], features: FeatureRows, n_neighbours: int
) -> Int64[Tensor, "q k"]:
    """List the nearest other rows of some rows only, as `nearest_neighbours` would."""
    wide = features[queries].float()
    best = torch.full((len(queries), n_neighbours), torch.inf)
    places = torch.zeros(len(queries), n_neighbours, dtype=torch.int64)
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK].float()
        distance = torch.cdist(wide, block)
        distance[queries[:, None] == torch.arange(start, start + len(block))] = torch.inf
        best, places = merge_nearest(best, places, distance, start)
    return places


def group_members(groups: Int64[np.ndarray, " n"]) -> list[Int64[np.ndarray, " _"]]:
    """Collect the row numbers of every group, in ascending order of the group number."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return list(np.split(order, starts))


def without_own(
    near: Int64[np.ndarray, "b k+1"], own: Int64[np.ndarray, " b"]
) -> Int64[np.ndarray, "b k"]:
    """Take each row's own number out of the list of its nearest rows."""
    is_own = near == own[:, None]
    is_own[~is_own.any(1), -1] = True  # so many equal rows that its own is not among the nearest
    return np.asarray(near[~is_own].reshape(len(near), -1))


def check_features(features: FeatureRows) -> None:
    """Refuse features that are not a finite table with one row per image."""
    if isinstance(features, PixelRows):
        return
    if features.ndim != 2 or not features.is_floating_point():
        raise UserError(
            f"features have type {features.dtype} and shape {tuple(features.shape)}; "
            "pass floats of shape (images, features)"
        )
    for start in range(0, len(features), _BLOCK):
        finite = features[start : start + _BLOCK].isfinite().all(1)
        if not bool(finite.all()):
            row = start + int((~finite).nonzero()[0])
            raise UserError(f"features of image {row} are not finite; remove or mend that image")


def _searched_together(
    n: int, n_neighbours: int, groups: Int64[np.ndarray, " n"] | None
) -> list[Int64[Tensor, " _"]]:
    """Give the rows of every group, or all rows as one group."""
    if n_neighbours < 1:
        raise UserError(f"n_neighbours={n_neighbours} must be at least 1")
    if groups is not None:
        return [torch.from_numpy(rows) for rows in group_members(groups)]
    if n_neighbours >= n:
        raise UserError(
            f"n_neighbours={n_neighbours} needs at least {n_neighbours + 1} images, got {n}; "
            "lower n_neighbours or use more images"
        )
    return [torch.arange(n)]


def _search(
    features: FeatureRows,
    rows: Int64[Tensor, " r"],
    found: Int64[Tensor, "n k"],
    centre: Float[Tensor, " f"],
    device: torch.device | str,
    ranks: Ranks,
) -> Iterator[None]:
    """Fill in the neighbours of one group of rows; compare every two blocks once for both sides."""
    k = min(found.shape[1], len(rows) - 1)
    best = torch.full((len(rows), k), torch.inf, device=device)
    places = torch.zeros(len(rows), k, dtype=torch.int64, device=device)
    centre = centre.to(device)

    def block_at(start: int) -> Float[Tensor, "b f"]:
        # Centred features lose less to cancellation between the squares.
        return features[rows[start : start + _BLOCK]].to(device).float() - centre

    def accept(start: int, offers: Float[Tensor, "q b"], offered: int) -> None:
        side = slice(start, start + _BLOCK)
        best[side], places[side] = merge_nearest(best[side], places[side], offers, offered)

    # All pairs of blocks, the left one changing slowest.
    pairs_of_blocks = list(combinations_with_replacement(range(0, len(rows), _BLOCK), 2))
    own = pairs_of_blocks[ranks.rank :: ranks.n_ranks]
    for left, pairs in groupby(own, key=lambda pair: pair[0]):
        left_block = block_at(left)
        for _, right in pairs:
            right_block = left_block if left == right else block_at(right)
            product = left_block @ right_block.T
            # |a|^2 - 2ab + |b|^2 without the square that is the same for all offers to a row
            offers = torch.add(right_block.square().sum(1)[None], product, alpha=-2)
            if left == right:
                offers.fill_diagonal_(torch.inf)
            accept(left, offers, right)
            if left != right:
                offers = torch.add(left_block.square().sum(1)[None], product.T, alpha=-2)
                accept(right, offers.contiguous(), left)
            yield
    best, places = best.cpu(), places.cpu()
    if ranks.n_ranks > 1:
        order = torch.cat(ranks.exchange(best), 1).topk(k, dim=1, largest=False).indices
        places = torch.cat(ranks.exchange(places), 1).gather(1, order)
    found[rows, :k] = rows[places]


def merge_nearest(
    best: Float[Tensor, "q k"],
    places: Int64[Tensor, "q k"],
    distance: Float[Tensor, "q b"],
    start: int,
) -> tuple[Float[Tensor, "q k"], Int64[Tensor, "q k"]]:
    """Keep the k smallest of the best so far and a block of new distances."""
    k = best.shape[1]
    near, index = distance.topk(min(k, distance.shape[1]), dim=1, largest=False)
    near, index = torch.cat([best, near], 1), torch.cat([places, index + start], 1)
    best, order = near.topk(k, dim=1, largest=False)
    return best, index.gather(1, order)


def _blockwise_mean(features: FeatureRows) -> Float[Tensor, " f"]:
    total = torch.zeros(features.shape[1], dtype=torch.float64)
    for start in range(0, len(features), _BLOCK):
        total += features[start : start + _BLOCK].double().sum(0).cpu()
    return (total / len(features)).float()


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

    Gives row numbers, nearest first, -1 where the cells held too few, and the share of true
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
