"""Find nearest neighbours approximately, in cells placed by faiss, and measure what was missed."""

import logging
import secrets
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.extras import missing_modules, require
from transop.pairs.features import collect_rows
from transop.pairs.neighbours import check_features, exact_neighbours_of
from transop.pairs.pixel_rows import PixelRows
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

_LOG = logging.getLogger(__name__)

_BLOCK = 4096
_RECALL_SAMPLE = 500
_ROWS_PER_CENTRE = 39  # faiss asks for so many to place one
_QUERIES = 2048


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

    faiss places the centres of the cells; the rows are then written to disk cell by cell, and
    every row is compared with those of the cells closest to it. Memory does not grow with the
    number of rows but for some numbers per row; the disk holds the features once more.

    Args:
        features: one row per image.
        n_neighbours: k.
        n_probes: cells looked into per row; more finds more and takes longer.
        seed: decides the rows from which cells are made and on which the recall is measured.
        scratch: a folder for the rows on disk; the system's own if not given.
        ranks: the processes that share the work; all of them get all neighbours.
        progress: announces the blocks.

    Returns:
        Row numbers, nearest first, -1 where the cells held too few, and the share of true
        neighbours among them, measured by exact search for a sample of rows.
    """
    faiss = _faiss()
    check_features(features)
    n = len(features)
    n_cells = max(1, min(int(2 * np.sqrt(n)), n // _ROWS_PER_CENTRE))
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(n, generator=generator)[: _ROWS_PER_CENTRE * n_cells].sort().values
    centres = _place_centres(faiss, features, chosen, n_cells, seed)
    cell_of = _assign(faiss, features, centres, ranks, progress)
    cells = _sorted_rows(features, cell_of, centres, scratch, ranks)

    def search(cell: int) -> Tensor:
        return cells.search(cell, min(n_probes, n_cells), n_neighbours)

    table = torch.full((n, n_neighbours), -1, dtype=torch.int64)
    found = ranks.in_turns(range(n_cells), search)
    for cell, near in enumerate(progress(found, "nearest neighbours", n_cells)):
        table[cells.members(cell)] = near
    sample = torch.randperm(n, generator=generator)[:_RECALL_SAMPLE]
    recall = _recall(features, table, sample)
    _LOG.info("approximate search found %.1f %% of the true neighbours", 100 * recall)
    return table, recall


def _faiss() -> Any:
    require("faiss", "search='faiss'", "or leave search='auto'")
    import faiss

    return faiss


def _place_centres(
    faiss: Any, features: Tensor | PixelRows, chosen: Tensor, n_cells: int, seed: int
) -> Float[Tensor, "c f"]:
    """Let faiss cluster a sample of rows."""
    sample = _rows(features, chosen)
    clustering = faiss.Kmeans(sample.shape[1], n_cells, niter=10, seed=seed)
    clustering.train(sample)
    return torch.from_numpy(np.array(clustering.centroids))


def _assign(
    faiss: Any, features: Tensor | PixelRows, centres: Tensor, ranks: Ranks, progress: Progress
) -> Int64[Tensor, " n"]:
    """Find the cell of every row."""
    index = faiss.IndexFlatL2(centres.shape[1])
    index.add(centres.numpy())

    def assign(start: int) -> Tensor:
        _, cells = index.search(_rows(features, slice(start, start + _BLOCK)), 1)
        return torch.from_numpy(cells)

    starts = range(0, len(features), _BLOCK)
    blocks = progress(ranks.in_turns(starts, assign), "indexing features", len(starts))
    # Into one table at once: small results kept between large buffers would break up the memory.
    return collect_rows(blocks, len(features))[:, 0]


class _Cells:
    """Rows on disk, cell by cell."""

    def __init__(
        self, rows: Tensor, order: Tensor, offsets: list[int], centres: Float[Tensor, "c f"]
    ) -> None:
        self._rows, self._order, self._offsets, self._centres = rows, order, offsets, centres
        blocks = torch.split(rows, _QUERIES)
        squares = (block.float().square().sum(1, keepdim=True) for block in blocks)
        self._squares = collect_rows(squares, len(rows))[:, 0]

    def members(self, cell: int) -> Int64[Tensor, " r"]:
        """Give the row numbers of a cell, ascending."""
        return self._order[self._offsets[cell] : self._offsets[cell + 1]]

    def search(self, cell: int, n_probes: int, n_neighbours: int) -> Int64[Tensor, "r k"]:
        """Find the nearest rows to every row of a cell among those of the cells near that row."""
        first, end = self._offsets[cell], self._offsets[cell + 1]
        parts = [
            self._search(start, min(start + _QUERIES, end), n_probes, n_neighbours)
            for start in range(first, end, _QUERIES)
        ]
        return torch.cat([torch.empty(0, n_neighbours, dtype=torch.int64), *parts])

    def _search(self, first: int, end: int, n_probes: int, k: int) -> Int64[Tensor, "q k"]:
        """Search for consecutive rows of one cell, one probed cell after the other."""
        queries = self._rows[first:end].float()
        wanted = torch.cdist(queries, self._centres).topk(n_probes, largest=False).indices
        # Every query keeps k offers per probe and chooses at the end: cheaper than after each.
        best = torch.full((len(queries) * n_probes, k), torch.inf)
        places = torch.zeros(len(queries) * n_probes, k, dtype=torch.int64)
        cells, slots = wanted.flatten().sort()
        probed, counts = torch.unique_consecutive(cells, return_counts=True)
        groups = torch.split(slots, counts.tolist())
        for cell, asked in zip(probed.tolist(), groups, strict=True):
            start, stop = self._offsets[cell], self._offsets[cell + 1]
            asking = asked // n_probes
            # |a|^2 - 2ab + |b|^2 without the square that is the same for all offers to a row
            block = self._rows[start:stop].float()
            offers = torch.addmm(self._squares[start:stop], queries[asking], block.T, alpha=-2)
            if start <= first < stop:  # the queries' own cell: nobody is offered itself
                offers.scatter_(1, (asking + first - start)[:, None], torch.inf)
            near, index = offers.topk(min(k, stop - start), dim=1, largest=False)
            best[asked, : near.shape[1]] = near
            places[asked, : near.shape[1]] = index + start
        best, order = best.view(len(queries), -1).topk(k, dim=1, largest=False)
        places = places.view(len(queries), -1).gather(1, order)
        return torch.where(best.isinf(), -1, self._order[places])


def _sorted_rows(
    features: Tensor | PixelRows,
    cell_of: Tensor,
    centres: Tensor,
    scratch: Path | None,
    ranks: Ranks,
) -> _Cells:
    """Write the rows cell by cell to a file that all processes of a machine map.

    It loses its name once they have: the last of them to end takes it along, even if killed.
    """
    order = cell_of.argsort(stable=True)
    offsets = [0, *cell_of.bincount(minlength=len(centres)).cumsum(0).tolist()]
    folder = Path(tempfile.gettempdir()) if scratch is None else scratch
    number = int(ranks.exchange(torch.tensor([[secrets.randbits(62)]]))[0])
    file = folder / f".cells-{socket.gethostname()}-{number:x}"
    # Pixel values, 0 to 255, are exact in half precision.
    halves = isinstance(features, PixelRows) or features.dtype == torch.float16
    kind = np.float16 if halves else np.float32
    try:
        if ranks.writes:
            folder.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as target:  # plain writes: a full disk is an error, not a crash
                for part in torch.split(order, _BLOCK):
                    target.write(_rows(features, part).astype(kind, copy=False).data)
        ranks.wait()
        rows = np.memmap(file, kind, mode="c", shape=tuple(features.shape))
        ranks.wait()
    finally:
        if ranks.writes:
            file.unlink(missing_ok=True)
    return _Cells(torch.from_numpy(rows), order, offsets, centres)


def _rows(features: Tensor | PixelRows, chosen: Tensor | slice) -> Float[np.ndarray, "b f"]:
    return np.ascontiguousarray(features[chosen].float().cpu().numpy())


def _recall(features: Tensor | PixelRows, table: Tensor, sample: Int64[Tensor, " s"]) -> float:
    truth = exact_neighbours_of(sample, features, table.shape[1])
    return float((table[sample][:, :, None] == truth[:, None, :]).any(1).double().mean())
