"""Spread a few labels over the neighbour graph of all images."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg
from torch import Tensor

from transop.errors import UserError, show
from transop.inputs import check_alike, check_finite, check_indices, check_whole
from transop.pairs import nearest_neighbours
from transop.progress import Progress, silent

N_NEIGHBOURS = 10
_SHARPNESS = 10.0  # of the opinion: chosen so that its confidence is close to its accuracy
_BALANCING_STEPS = 100


def weigh_neighbours(
    features: Float[Tensor, "n f"], n_neighbours: int = N_NEIGHBOURS, *, progress: Progress = silent
) -> sparse.csr_matrix:
    """Join every row with its nearest rows; near ones weigh more.

    The weight of an edge is exp(-4 d^2 / r^2), where d is the distance and r the distance of the
    farthest neighbour. The graph is made symmetric by the larger of both weights.

    Args:
        features: one row per image, such as its latents.
        n_neighbours: edges that start at a row.
        progress: announces the search.
    """
    check_alike(features=features)
    check_finite(features=features)
    if features.ndim != 2 or len(features) < 2:
        raise UserError(
            f"features have shape {tuple(features.shape)}; a neighbour graph needs a table with at "
            "least 2 rows"
        )
    features, n = features.detach().cpu(), len(features)
    k = min(check_whole("n_neighbours", n_neighbours, least=1), n - 1)
    table = nearest_neighbours(features, k, progress=progress)
    squared = torch.stack([(features - features[table[:, j]]).square().sum(1) for j in range(k)], 1)
    radius = squared.amax(1, keepdim=True).clamp_min(1e-12)
    weights = (-4 * squared / radius).exp().double().numpy().ravel()
    rows = np.repeat(np.arange(n), k)
    graph = sparse.csr_matrix((weights, (rows, table.numpy().ravel())), shape=(n, n))
    return graph.maximum(graph.T)


def spread_labels(
    graph: sparse.csr_matrix,
    rows: Int[np.ndarray, " m"],
    labels: Int[np.ndarray, " m"],
    n_classes: int,
) -> Float[np.ndarray, "n k"]:
    """Give every row of a graph a probability of each class, from the labels of a few rows.

    This is Poisson learning (Calder et al., 2020), which works with very few labels. It solves

        (D - W) u = sum over labelled j of e_j (y_j - mean of y)

    where D holds the degrees and y_j is one for the label's class, else zero. The scores u become
    probabilities whose mean over all rows is the share of each class among the labels, because
    otherwise well connected classes take over others.

    Args:
        graph: symmetric weights W, as `weigh_neighbours` gives them.
        rows: which rows have a label.
        labels: their class numbers.
        n_classes: number of classes.
    """
    rows, labels = _check_labelled(graph, rows, labels, n_classes)
    if len(np.unique(labels)) < n_classes:
        raise UserError(
            f"labels name {len(np.unique(labels))} of {n_classes} classes; give at least one "
            "labelled image of each class"
        )
    n = graph.shape[0]
    n_parts, part = connected_components(graph, directed=False)
    counts = np.zeros((n_parts, n_classes))
    np.add.at(counts, (part[rows], labels), 1)
    sources = np.zeros((n, n_classes))
    sources[rows, labels] = 1
    sources[rows] -= (counts / np.maximum(counts.sum(1, keepdims=True), 1))[part[rows]]
    degrees = np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)
    root = degrees**-0.5
    laplacian = sparse.identity(n) - sparse.diags(root) @ graph @ sparse.diags(root)
    columns = [cg(laplacian, root * source, rtol=1e-4, maxiter=1000)[0] for source in sources.T]
    scores = _centre(np.stack(columns, 1) * root[:, None], degrees, part)
    # A part of the graph that has labels has no other classes than theirs.
    absent = (counts == 0) & (counts.sum(1, keepdims=True) > 0)
    return _balance(np.where(absent[part], -np.inf, scores), counts.sum(0) / len(rows))


def _check_labelled(
    graph: Any, rows: Any, labels: Any, n_classes: Any
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Refuse a graph, rows or labels that do not fit each other."""
    if not sparse.issparse(graph) or graph.shape[0] != graph.shape[1]:
        raise UserError(f"graph = {show(graph)} must be what weigh_neighbours gives")
    n_classes = check_whole("n_classes", n_classes, least=1)
    n_rows = graph.shape[0]
    indices = check_indices("rows", rows, n_rows), check_indices("labels", labels, n_classes)
    if len(indices[0]) != len(indices[1]):
        raise UserError(
            f"labels has {len(indices[1])} entries for {len(indices[0])} rows; give as many"
        )
    return indices[0].numpy(), indices[1].numpy()


def _centre(
    scores: Float[np.ndarray, "n k"], degrees: Float[np.ndarray, " n"], part: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n k"]:
    """Give every connected part of the graph scores of mean zero and deviation one."""
    sizes, volumes = np.bincount(part), np.bincount(part, degrees)
    means = np.stack([np.bincount(part, degrees * column) / volumes for column in scores.T], 1)
    centred = scores - means[part]
    deviations = np.sqrt(np.bincount(part, (centred**2).mean(1)) / sizes)
    result: Float[np.ndarray, "n k"] = centred / np.maximum(deviations, 1e-12)[part, None]
    return result


def _balance(
    scores: Float[np.ndarray, "n k"], shares: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "n k"]:
    """Turn scores into probabilities whose mean over rows is the share of each class."""
    logits = _SHARPNESS * scores
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    for _ in range(_BALANCING_STEPS):
        probabilities *= shares / np.maximum(probabilities.mean(0), 1e-12)
        probabilities /= probabilities.sum(1, keepdims=True)
    result: Float[np.ndarray, "n k"] = probabilities
    return result
