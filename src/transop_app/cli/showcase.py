"""The demo's pictures: what the model reconstructs, what each operator does, where paths lead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from transop.evaluation import same_class_pairs
from transop.operators import sample_moves
from transop.plotting import image_grid
from transop_app.report.saved import About, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from transop.data import ImageDataset
    from transop.model import ManifoldAutoencoder

Drawn = tuple["Figure", dict[str, np.ndarray]]
Drawing = Callable[["ManifoldAutoencoder", "ImageDataset"], Drawn]

_REACH = 0.6  # how far a strip goes to either side, as a share of the latent point's length
_MOST_OPERATORS = 8


def draw_showcase(model: ManifoldAutoencoder, dataset: ImageDataset, folder: Path) -> list[Path]:
    """Draw every figure whose phase the model has been through.

    Gives the PNG files; an SVG and the numbers stand beside each.
    """
    drawn = []
    for name, (phase, draw) in FIGURES.items():
        if phase in model.phases:
            title, _, caption = (draw.__doc__ or "").partition("\n\n")
            about = About(title.removesuffix("."), " ".join(caption.split()))
            figure, numbers = draw(model, dataset)
            drawn.append(save_figure(figure, folder / name, numbers, about)[0])
    return drawn


def _reconstructions(model: ManifoldAutoencoder, dataset: ImageDataset) -> Drawn:
    """Reconstructions.

    Held-out images above, and below what the autoencoder makes of them. Whatever is lost here no
    operator can bring back.
    """
    images = dataset.batch(_examples(dataset))
    pair = {"image": images.numpy(), "reconstruction": model.reconstruct(images).cpu().numpy()}
    title = "Test images and what the autoencoder makes of them"
    return image_grid(np.stack(list(pair.values())), title=title, row_labels=list(pair)), pair


def _operators(model: ManifoldAutoencoder, dataset: ImageDataset) -> Drawn:
    """What each operator does.

    One image moved by single operators, backwards to the left and forwards to the right of the
    outlined reconstruction.
    """
    n_shown = min(_MOST_OPERATORS, max(1, int(model.operators.living().sum())))
    strongest = model.operators.magnitudes().detach().argsort(descending=True)
    order = [int(m) for m in strongest[:n_shown]]
    point = model.encode(dataset.batch(_examples(dataset)[-1:]))[0]
    shares = torch.linspace(-_REACH, _REACH, 9)
    coefficients = torch.zeros(len(order), len(shares), model.operators.n_operators)
    matrices = model.operators.operators.detach()
    for row, m in enumerate(order):
        speed = (matrices[m] @ point).norm() / point.norm().clamp_min(1e-6)
        coefficients[row, :, m] = shares / float(speed.clamp_min(1e-6))
    points = point.expand(*coefficients.shape[:2], -1)
    frames = model.decode(model.transport(coefficients, points)).cpu().numpy()
    figure = image_grid(
        frames,
        title="One image moved by each operator alone, as far as a share of its latent length",
        row_labels=[f"operator {m}" for m in order],
        column_labels=[f"{share:+.2g}" if share else "image" for share in shares.tolist()],
        boxed=[(row, len(shares) // 2) for row in range(len(order))],
    )
    return figure, {"frames": frames, "coefficients": coefficients.cpu().numpy()}


def _paths(model: ManifoldAutoencoder, dataset: ImageDataset) -> Drawn:
    """Paths between images.

    From one image towards another of its class, and beyond it.
    """
    rows, labels = _with_pairs(dataset)
    first, second = same_class_pairs(labels, 1, torch.Generator().manual_seed(0))
    start, end = dataset.batch(rows[first[:8]]), dataset.batch(rows[second[:8]])
    times = np.linspace(0, 2, 9)
    frames = model.path(start, end, t=times.tolist()).cpu().numpy()
    strip = np.concatenate([start.numpy()[:, None], frames, end.numpy()[:, None]], axis=1)
    figure = image_grid(
        strip,
        title="From one image towards another (t = 1) and beyond",
        column_labels=["start", *(f"{t:.3g}" for t in times), "end"],
        boxed=[(row, column) for row in range(len(strip)) for column in (0, strip.shape[1] - 1)],
    )
    return figure, {"frames": frames, "times": times}


def _with_pairs(dataset: ImageDataset) -> tuple[np.ndarray, np.ndarray]:
    """Choose images with their classes: held-out ones, or all where no two of these are alike."""
    held_out, everything = dataset.splits[dataset.held_out_split], np.arange(len(dataset))
    alike = np.zeros(len(dataset), int)
    labels = alike if dataset.labels is None else dataset.labels
    choices = ((held_out, labels), (everything, labels), (everything, alike))
    return next((rows, of[rows]) for rows, of in choices if np.bincount(of[rows]).max() > 1)


def _samples(model: ManifoldAutoencoder, dataset: ImageDataset) -> Drawn:
    """Samples.

    Random moves of the outlined image, as far as the coefficient encoder thinks its class allows.
    """
    images = dataset.batch(_examples(dataset)[:8])
    points = model.encode(images)[:, None].expand(-1, 9, -1)
    moved, coefficients = sample_moves(
        model.operators.operators.detach(), points, model.scales_at(points).cpu()
    )
    frames = model.decode(moved).cpu().numpy()
    figure = image_grid(
        np.concatenate([images.numpy()[:, None], frames], axis=1),
        title="Learned augmentations: random moves that keep identity",
        boxed=[(row, 0) for row in range(len(images))],
    )
    return figure, {"frames": frames, "coefficients": coefficients.cpu().numpy()}


# Name of the files, the phase that makes it possible, and the function that draws it, whose
# docstring is the figure's title and caption.
FIGURES: dict[str, tuple[str, Drawing]] = {
    "reconstructions": ("autoencoder", _reconstructions),
    "operators": ("operators", _operators),
    "paths": ("operators", _paths),
    "samples": ("coefficient_encoder", _samples),
}


def _examples(dataset: ImageDataset) -> np.ndarray:
    """Choose ten held-out images, one of each class while there are classes."""
    rows = dataset.splits[dataset.held_out_split]
    if dataset.labels is None:
        spread = np.linspace(0, len(rows) - 1, min(10, len(rows)))  # not all of one scene
        return np.take(rows, spread.astype(int))
    labels = dataset.labels[rows]
    return np.array([rows[np.flatnonzero(labels == label)[0]] for label in np.unique(labels)[:10]])
