"""Embedding: the latent points in the plane, coloured by how far an operator may go there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import embedding

_NEIGHBOURS = 10
_SHOWN = 4


def compute(run: PaperRun) -> Numbers:
    """Flatten held-out latents with Isomap and read off the encoded scales."""
    rows = _spread(run.held_out_rows, run.sized(400, 2000))
    latents = run.latents(rows)
    scales = as_array(run.model.scales_at(latents))
    chosen = _most_varied(scales, run.living_operators)
    labels = run.dataset.labels
    arrays = {
        "points": _isomap(as_array(latents)),
        "images": as_array(run.dataset.batch(rows)).astype(np.float32),
        "scales": scales[:, chosen],
        "labels": np.zeros(0, np.int64) if labels is None else labels[rows],
    }
    return Numbers(arrays, {"operators": chosen, "n_points": len(rows)})


def draw(numbers: Numbers) -> Figure:
    """Draw the plane with images, and once per operator in its colours."""
    labels = numbers["labels"]
    return embedding(
        numbers["points"],
        numbers["images"],
        numbers["scales"],
        [f"operator {m}" for m in numbers.facts["operators"]],
        labels if len(labels) else None,
    )


def _isomap(latents: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    from sklearn.manifold import Isomap

    with warnings.catch_warnings():
        # Classes that lie apart give several components; Isomap joins them and says so.
        warnings.simplefilter("ignore")
        n_neighbours = min(_NEIGHBOURS, len(latents) - 1)
        flat: Any = Isomap(n_neighbors=n_neighbours).fit_transform(latents)
    points: np.ndarray = flat.astype(np.float32)
    # Axes come with arbitrary signs: the farther end of each points up and to the right.
    far = np.take_along_axis(points, np.abs(points).argmax(0)[None], axis=0)
    points *= np.sign(far)
    return points


def _spread(rows: np.ndarray, n: int) -> np.ndarray:
    chosen: np.ndarray = rows[np.linspace(0, len(rows) - 1, min(n, len(rows))).astype(int)]
    return chosen


def _most_varied(scales: Float[np.ndarray, "n m"], living: list[int]) -> list[int]:
    """Choose the living operators whose scale differs most from place to place."""
    variation = scales.std(0) / scales.mean(0)
    return sorted(living, key=lambda m: -variation[m])[:_SHOWN]


FIGURE = PaperFigure(
    title="Where each operator may be used",
    caption=(
        "Left: test images placed by an Isomap embedding of their latent points. Right: the same "
        "points, coloured by the scale the coefficient encoder gives to one operator there; yellow "
        "means it may go far without changing what the image is, blue that it may not. An "
        "operator's yellow regions are where it belongs."
    ),
    paper="Figure 5 (a, b)",
    compute=compute,
    draw=draw,
    needs=("operators", "coefficient_encoder"),
)
