"""Which transformations a classifier ignores: how far each class may go along each operator.

The coefficient encoder has learned how far every operator can carry a point before the classifier
changes its mind. Averaged over the images of a class, a large scale says that the classifier is
robust to that transformation of that class, a small one that it is sensitive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import ImageDataset, spread_out
from transop.errors import UserError
from transop.identity import Identity, describe_identity
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent

_CHUNK = 1_000
_N_FRAMES = 9
_REACH = 8.0  # a strip goes so many times the operator's average scale to either side


@dataclass(frozen=True)
class Tolerance:
    """How far one class may go along one operator: average scale, and the move it makes."""

    label: int
    operator: int
    scale: float
    move: float


@dataclass(frozen=True)
class Invariance:
    """Average scales by class and living operator."""

    class_names: tuple[str, ...]  # one per row
    operators: tuple[int, ...]  # numbers of the living operators, one per column
    scales: Float[np.ndarray, "k m"]  # of the coefficient; NaN for a class without images
    # Average relative move |Psi z| scale / |z|, which compares operators of different magnitude.
    moves: Float[np.ndarray, "k m"]
    counts: Int[np.ndarray, " k"]  # images of each class
    examples: Int[np.ndarray, " k"]  # row of each class's most typical image, -1 without one
    identity: str = ""  # whose opinion the scales keep, in words

    def ranking(self, label: int) -> list[Tolerance]:
        """List a class's operators, those it tolerates most first.

        They are compared by the move they make: a weak operator has a large scale for nothing.
        """
        order = np.argsort(-self.moves[label], kind="stable")
        return [self._cell(label, int(column)) for column in order]

    def extremes(self, n: int) -> tuple[list[Tolerance], list[Tolerance]]:
        """Choose the cells with the highest and with the lowest scales, each operator once.

        Scales are compared with the operator's average over classes: otherwise the operator of
        the smallest magnitude would win everywhere.
        """
        relative = self.scales / np.nanmean(self.scales, axis=0)
        flat = np.argsort(np.where(np.isnan(relative), np.inf, relative), axis=None, kind="stable")
        seen = np.isfinite(relative).sum()
        ascending = [divmod(int(cell), relative.shape[1]) for cell in flat[:seen]]
        found = []
        for cells in (ascending[::-1], ascending):
            first: dict[int, int] = {}
            for label, column in cells:
                first.setdefault(column, label)
            found.append([self._cell(label, column) for column, label in first.items()][:n])
        return found[0], found[1]

    def _cell(self, label: int, column: int) -> Tolerance:
        scale, move = float(self.scales[label, column]), float(self.moves[label, column])
        return Tolerance(label, self.operators[column], scale, move)


@dataclass(frozen=True)
class Strip:
    """One operator applied to a typical image of a class, in both directions."""

    tolerance: Tolerance
    coefficients: Float[np.ndarray, " t"]
    frames: Float[np.ndarray, "t c h w"]
    opinions: Int[np.ndarray, " t"] | None  # what the classifier calls each frame


@torch.no_grad()
def measure_invariance(
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    *,
    n_images: int = 10_000,
    progress: Progress = silent,
) -> Invariance:
    """Average the encoded scales over held-out images of every class.

    Args:
        model: with a coefficient encoder; its identity names images that have no label, and all
            images if it comes from the neighbour graph.
        dataset: the images; test images if it has some, else validation, else training images.
        n_images: how many to look at, at most.
        progress: announces long work.
    """
    living = model.operators.living().nonzero()[:, 0].cpu()
    if len(living) == 0:
        raise UserError("no operator of this run is living; train it with less operator_decay")
    identity = None if model.classifier is None else Identity.of(model)
    by_graph = identity is not None and identity.source == "graph"
    given = None if by_graph else dataset.labels
    if given is None and not model.names_classes:
        raise UserError(
            f"data set '{dataset.meta.name}' has no labels and the model no classifier that names "
            "classes, so there is nothing to average over; use images with classes"
        )
    rows = spread_out(dataset.splits[dataset.held_out_split], n_images)
    latents, labels = _encode(model, dataset, rows, given, progress)
    scales = model.scales_at(latents).cpu()[:, living]
    matrices = model.operators.operators[living.to(latents.device)]
    speeds = torch.einsum("mij,bj->bmi", matrices, latents).norm(dim=2)
    relative = (speeds / latents.norm(dim=1, keepdim=True).clamp_min(1e-12)).cpu() * scales
    names = model.class_names or dataset.meta.class_names
    if identity is not None and given is None:
        names = identity.names
    n_classes = max(
        int(labels.max()) + 1, len(names or ()), 0 if given is None else dataset.n_classes
    )
    averages, moves, examples, places = [], [], [], latents.cpu()
    for label in range(n_classes):
        own = (labels == label).nonzero()[:, 0]
        averages.append(scales[own].mean(0))
        moves.append(relative[own].mean(0))
        distance = (places[own] - places[own].mean(0)).norm(dim=1)
        examples.append(int(rows[own[int(distance.argmin())]]) if len(own) else -1)
    return Invariance(
        class_names=names or tuple(map(str, range(n_classes))),
        operators=tuple(living.tolist()),
        scales=torch.stack(averages).numpy(),
        moves=torch.stack(moves).numpy(),
        counts=torch.bincount(labels, minlength=n_classes).numpy(),
        examples=np.array(examples),
        identity=describe_identity(model.identity_facts),
    )


@torch.no_grad()
def draw_strip(
    model: ManifoldAutoencoder, dataset: ImageDataset, found: Invariance, cell: Tolerance
) -> Strip:
    """Apply a cell's operator to its class's most typical image, a fixed range for all classes.

    The range is eight times the operator's average scale over all classes.
    """
    average = float(np.nanmean(found.scales[:, found.operators.index(cell.operator)]))
    image = dataset.batch(found.examples[cell.label : cell.label + 1])
    latents = model.encode(image).expand(_N_FRAMES, -1)
    path = torch.linspace(-_REACH, _REACH, _N_FRAMES) * average
    coefficients = torch.zeros(_N_FRAMES, model.operators.n_operators)
    coefficients[:, cell.operator] = path
    moved = model.transport(coefficients, latents)
    named = model.classify_latents(moved).argmax(1).cpu() if model.names_classes else None
    opinions = None if named is None else named.numpy()
    return Strip(cell, path.numpy(), model.decode(moved).cpu().numpy(), opinions)


def _encode(
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    rows: np.ndarray,
    given: np.ndarray | None,
    progress: Progress,
) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """Encode images and name them: by the given labels, else by the model's identity."""
    latents, labels = [], []
    starts = range(0, len(rows), _CHUNK)
    for start in progress(starts, "reading scales", len(starts)):
        part = rows[start : start + _CHUNK]
        images = dataset.batch(part)
        latents.append(model.encode(images))
        named = model.classify(images).argmax(1).cpu() if given is None else given[part]
        labels.append(torch.as_tensor(named))
    return torch.cat(latents), torch.cat(labels)
