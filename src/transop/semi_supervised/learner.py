"""From a folder with few labelled and many unlabelled images to a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transop.augment import TransportAugment
from transop.data import ImageDataset, load_dataset
from transop.errors import DataError, UserError
from transop.inputs import (
    check_callable,
    check_images,
    check_indices,
    check_kind,
    check_seed,
    check_whole,
)
from transop.model import ManifoldAutoencoder
from transop.networks import LeNet
from transop.operators import sample_laplace
from transop.progress import Progress, silent
from transop.semi_supervised.consistency import Consistency, train_consistently
from transop.semi_supervised.features import joint_features
from transop.semi_supervised.graph import spread_labels, weigh_neighbours
from transop.training import fit

UNLABELLED = "unlabelled"  # name of the folder whose images have no label
_AT_ONCE = 500
_LENGTH = 0.2  # of a move, relative to the latent


@dataclass(frozen=True)
class FewLabelClassifier:
    """A classifier, and how often it is right as far as the few labels can tell."""

    network: nn.Module  # maps images in [0, 1] to logits
    class_names: tuple[str, ...]
    # Share of labelled images that were classified rightly while their own label was hidden.
    expected_accuracy: float | None
    standard_error: float | None  # of the expected accuracy
    n_labelled: int  # images it has learned from
    n_unlabelled: int
    image_shape: tuple[int, ...]  # channels, height and width of the images it takes

    @torch.inference_mode()
    def predict(self, images: Float[Tensor, "b c h w"]) -> list[str]:
        """Name the class of each image."""
        batch, _ = check_images(images, self.image_shape, next(self.network.parameters()))
        return [self.class_names[int(c)] for c in _logits(self.network, batch).argmax(1)]


def learn_from_few_labels(
    source: Any,
    model: ManifoldAutoencoder | None = None,
    labels: Sequence[int] | Int[np.ndarray, " n"] | None = None,
    *,
    settings: Consistency | None = None,
    n_folds: int = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> FewLabelClassifier:
    """Learn a classifier from a few labelled and many unlabelled images.

    A neighbour graph of the model's latents, pixels and perceptual features spreads the labels to
    all images. A LeNet-5 then learns from labelled images and, with the graph's opinion, from
    unlabelled ones, each moved along the model's operators.

    Args:
        source: a folder with one subfolder per class and a subfolder ``unlabelled``; or whatever
            else `load_dataset` takes, such as an array of images, with ``labels``.
        model: trained on these images without their labels (with labels, the expected accuracy
            would be too high); trained here by the recipe ``demo`` if left out.
        labels: one class number per image of a data set, -1 for images without label.
        settings: how the network is trained.
        n_folds: parts into which the labelled images are divided to measure the expected
            accuracy, each being hidden once; 0 leaves it out and is so many times faster.
        seed: of all randomness.
        progress: announces long work.
    """
    check_kind("model", model, ManifoldAutoencoder, optional=True)
    check_kind("settings", settings, Consistency, optional=True)
    check_callable("progress", progress, n_arguments=3)
    n_folds = check_whole("n_folds", n_folds, least=0)
    seed = check_seed("seed", seed)
    data, known, names = _read(source, labels, model)
    if model is None:
        model = fit(replace(data, labels=None), seed=seed, progress=progress)
    data = load_dataset(data, image_size=model.image_shape[1])
    images, everyone = data.batch(slice(None)), np.arange(len(data))
    features = joint_features(data, model, everyone, progress=progress)
    graph = weigh_neighbours(features, progress=progress)
    learner = _Learner(images, model, graph, len(names), settings or Consistency(), seed, progress)
    rows = np.flatnonzero(known >= 0)
    right = _cross_validate(learner, rows, known[rows], n_folds, seed) if n_folds else None
    return FewLabelClassifier(
        learner.train(rows, known[rows]),
        names,
        None if right is None else float(right.mean()),
        None if right is None else float(right.std() / np.sqrt(len(right))),
        n_labelled=len(rows),
        n_unlabelled=len(known) - len(rows),
        image_shape=tuple(images.shape[1:]),
    )


def _read(
    source: Any, labels: Any, model: ManifoldAutoencoder | None
) -> tuple[ImageDataset, Int[np.ndarray, " n"], tuple[str, ...]]:
    """Give the images, their labels with -1 for unknown ones, and the names of the classes."""
    data = load_dataset(source, channels=None if model is None else model.image_shape[0])
    if labels is not None:
        known = check_indices("labels", labels, len(data), least=-1).numpy()
        if len(known) != len(data):
            raise UserError(f"labels has {len(known)} entries for {len(data)} images; give as many")
        return data, known, tuple(str(c) for c in range(int(known.max()) + 1))
    names = data.meta.class_names or ()
    if data.labels is None or UNLABELLED not in names:
        raise DataError(
            f"'{data.meta.name}' has no subfolder '{UNLABELLED}'; put labelled images into one "
            f"subfolder per class and all others into '{UNLABELLED}'"
        )
    new = {old: c for c, old in enumerate(c for c, n in enumerate(names) if n != UNLABELLED)}
    known = np.array([new.get(int(label), -1) for label in data.labels])
    return data, known, tuple(name for name in names if name != UNLABELLED)


@dataclass(frozen=True)
class _Learner:
    """Trains networks on different choices of labelled images, over one graph and one model."""

    images: Float[Tensor, "n c h w"]
    model: ManifoldAutoencoder
    graph: Any  # of the images, as `weigh_neighbours` gives it
    n_classes: int
    settings: Consistency
    seed: int
    progress: Progress

    def train(self, rows: Int[np.ndarray, " m"], labels: Int[np.ndarray, " m"]) -> nn.Module:
        """Train a network that knows the labels of some rows."""
        generator = torch.Generator().manual_seed(self.seed)
        opinion = torch.from_numpy(spread_labels(self.graph, rows, labels, self.n_classes))
        labelled, truth = torch.from_numpy(rows), torch.from_numpy(labels)
        augment = self._augment(generator)

        def draw_labelled(n: int) -> tuple[Tensor, Tensor]:
            chosen = torch.randint(len(labelled), (n,), generator=generator)
            return augment(self.images[labelled[chosen]]), truth[chosen]

        def draw_unlabelled(n: int) -> tuple[Tensor, Tensor, Tensor]:
            chosen = torch.randint(len(self.images), (n,), generator=generator)
            plain = self.images[chosen]
            return chosen, plain, augment(plain)

        channels, size, _ = self.model.image_shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = LeNet(image_size=size, channels=channels, n_classes=self.n_classes)
        trained, _ = train_consistently(
            network,
            draw_labelled,
            draw_unlabelled,
            self.settings,
            class_shares=torch.bincount(truth, minlength=self.n_classes) / len(truth),
            opinion=opinion.float(),
            progress=self.progress,
        )
        return trained

    def _augment(self, generator: torch.Generator) -> TransportAugment:
        """Move three images of four, as far as the coefficient encoder allows.

        Without an encoder all coefficients have one scale, which is chosen so that a move is a
        fifth as long as the latent itself: longer ones change what an image shows.
        """
        model = self.model
        if model.coefficient_encoder is not None:
            return TransportAugment(model, p=0.75, generator=generator)
        points = model.encode(self.images[:_AT_ONCE])
        scales = torch.full((len(points), model.operators.n_operators), model.prior_scale)
        moved = model.transport(sample_laplace(scales, generator=generator), points)
        lengths = torch.linalg.vector_norm(moved - points, dim=1)
        length = float((lengths / torch.linalg.vector_norm(points, dim=1)).median())
        scale = model.prior_scale * _LENGTH / max(length, 1e-6)
        return TransportAugment(model, p=0.75, prior_scale=scale, generator=generator)


@torch.inference_mode()
def _logits(network: nn.Module, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
    return torch.cat([network(part) for part in torch.split(images, _AT_ONCE)])


def _cross_validate(
    learner: _Learner,
    rows: Int[np.ndarray, " m"],
    labels: Int[np.ndarray, " m"],
    n_folds: int,
    seed: int,
) -> Float[np.ndarray, " m"]:
    """Hide each part of the labels once; give 1 for every image that is classified rightly.

    Every part holds images of all classes, as many of each as possible.
    """
    smallest = int(np.bincount(labels).min())
    if not 2 <= n_folds <= smallest:
        raise UserError(
            f"n_folds = {n_folds} needs as many labelled images of every class, the smallest has "
            f"{smallest}; use 2 to {smallest}, or 0 for no expected accuracy"
        )
    order = np.random.default_rng(seed).permutation(len(rows))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(rows), dtype=np.int64)
    fold[order] = np.arange(len(rows)) % n_folds
    right = np.zeros(len(rows))
    for number in range(n_folds):
        hidden = fold == number
        network = learner.train(rows[~hidden], labels[~hidden])
        guesses = _logits(network, learner.images[torch.from_numpy(rows[hidden])]).argmax(1)
        right[hidden] = guesses.numpy() == labels[hidden]
    return right
