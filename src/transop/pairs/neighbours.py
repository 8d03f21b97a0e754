"""Find the nearest neighbours of every row exactly, a block of distances at a time."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from transop.errors import UserError
from transop.progress import Progress, silent

# 2,048 x 8,192 distances are 64 MB: enough for the matrix product to run at full speed.
_QUERY_BLOCK = 2048
_DATABASE_BLOCK = 8192
MISSING = -1


def nearest_neighbours(
    features: Float[Tensor, "n f"],
    n_neighbours: int,
    *,
    groups: Int64[np.ndarray, " n"] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> Int64[Tensor, "n k"]:
    """List the nearest other rows of every row, by Euclidean distance, nearest first.

    [PAIR]  x1 = argmin over x of ||r(x0) - r(x)||^2, the k smallest instead of one

    The search is exact and its memory grows with n, never with n squared. A row is never its
    own neighbour, even when other rows equal it.

    Args:
        features: r(x), one row per image; half precision is widened block by block.
        n_neighbours: k.
        groups: a group number per row; neighbours then come from the row's own group.
        device: where distances are computed.
        progress: announces the blocks.

    Returns:
        Row numbers; ``-1`` fills the end of a row whose group has too few members.
    """
    check_features(features)
    if n_neighbours < 1:
        raise UserError(f"n_neighbours={n_neighbours} must be at least 1")
    n = len(features)
    if groups is None:
        if n_neighbours >= n:
            raise UserError(
                f"n_neighbours={n_neighbours} needs at least {n_neighbours + 1} images, got {n}; "
                "lower n_neighbours or use more images"
            )
        members = [torch.arange(n)]
    else:
        members = [torch.from_numpy(m) for m in group_members(groups)]
    found = torch.full((n, n_neighbours), MISSING, dtype=torch.int64)
    # Centred features lose less to cancellation in |a|^2 - 2ab + |b|^2.
    centre = _blockwise_mean(features)
    for rows, block in progress(
        _search(features, centre, members, n_neighbours, device),
        "nearest neighbours",
        sum(-(-len(m) // _QUERY_BLOCK) for m in members),
    ):
        found[rows, : block.shape[1]] = block
    return found


def exact_neighbours_of(
    queries: Int64[Tensor, " q"], features: Float[Tensor, "n f"], n_neighbours: int
) -> Int64[Tensor, "q k"]:
    """List the nearest other rows of some rows only, as `nearest_neighbours` would."""
    centre = _blockwise_mean(features)
    wide = _widen(features[queries], centre, features.device)
    return _search_block(wide, queries, features, torch.arange(len(features)), centre, n_neighbours)


def group_members(groups: Int64[np.ndarray, " n"]) -> list[Int64[np.ndarray, " _"]]:
    """Collect the row numbers of every group, in ascending order of the group number."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return list(np.split(order, starts))


def check_features(features: Tensor) -> None:
    """Refuse features that are not a finite table with one row per image."""
    if features.ndim != 2 or not features.is_floating_point():
        raise UserError(
            f"features have type {features.dtype} and shape {tuple(features.shape)}; "
            "pass floats of shape (images, features)"
        )
    for start in range(0, len(features), _DATABASE_BLOCK):
        finite = features[start : start + _DATABASE_BLOCK].isfinite().all(1)
        if not bool(finite.all()):
            row = start + int((~finite).nonzero()[0])
            raise UserError(f"features of image {row} are not finite; remove or mend that image")


def _search(
    features: Tensor,
    centre: Tensor,
    members: list[Tensor],
    n_neighbours: int,
    device: torch.device | str,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield row numbers with their neighbours, one block of queries at a time."""
    for rows in members:
        k = min(n_neighbours, len(rows) - 1)
        for start in range(0, len(rows), _QUERY_BLOCK):
            queries = rows[start : start + _QUERY_BLOCK]
            if k == 0:
                yield queries, torch.empty(len(queries), 0, dtype=torch.int64)
                continue
            wide = _widen(features[queries], centre, device)
            own = torch.arange(start, start + len(queries))
            yield queries, rows[_search_block(wide, own, features, rows, centre, k)]


def _search_block(
    queries: Float[Tensor, "q f"],
    own: Int64[Tensor, " q"],
    features: Float[Tensor, "n f"],
    rows: Int64[Tensor, " r"],
    centre: Float[Tensor, " f"],
    k: int,
) -> Int64[Tensor, "q k"]:
    """Find the places of the k nearest members of ``rows``, never a query's ``own`` place."""
    own = own.to(queries.device)
    best = torch.full((len(queries), k), torch.inf, device=queries.device)
    position = torch.zeros(len(queries), k, dtype=torch.int64, device=queries.device)
    for start in range(0, len(rows), _DATABASE_BLOCK):
        chosen = rows[start : start + _DATABASE_BLOCK]
        block = _widen(features[chosen], centre, queries.device)
        # |query|^2 is the same along a row and does not change the order
        distance = torch.addmm(block.square().sum(1)[None], queries, block.T, alpha=-2)
        inside = (own >= start) & (own < start + len(chosen))
        distance[inside.nonzero().flatten(), own[inside] - start] = torch.inf
        near, index = distance.topk(min(k, len(chosen)), dim=1, largest=False)
        near, index = torch.cat([best, near], 1), torch.cat([position, index + start], 1)
        best, order = near.topk(k, dim=1, largest=False)
        position = index.gather(1, order)
    return position.cpu()


def _widen(block: Tensor, centre: Tensor, device: torch.device | str) -> Float[Tensor, "b f"]:
    return block.to(device).float() - centre.to(device)


def _blockwise_mean(features: Tensor) -> Float[Tensor, " f"]:
    total = torch.zeros(features.shape[1], dtype=torch.float64)
    for start in range(0, len(features), _DATABASE_BLOCK):
        total += features[start : start + _DATABASE_BLOCK].double().sum(0).cpu()
    return (total / len(features)).float()
