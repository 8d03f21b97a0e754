"""From a folder with few labelled and many unlabelled images to a classifier."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transop.data import DatasetMeta, ImageDataset, load_dataset
from transop.errors import DataError, UserError, show
from transop.extras import missing_modules
from transop.inputs import check_callable, check_indices, check_kind, check_seed, check_whole
from transop.model import ManifoldAutoencoder
from transop.networks import LeNet, prefer_channels_last
from transop.progress import Progress, silent
from transop.semi_supervised.classifier import ExpectedAccuracy, FewLabelClassifier, GraphLabels
from transop.semi_supervised.consistency import Consistency, train_consistently
from transop.semi_supervised.features import joint_features
from transop.semi_supervised.graph import spread_labels, weigh_neighbours
from transop.training import fit

logger = logging.getLogger(__name__)

_UNLABELLED = ("unlabelled", "unlabeled")  # names of the folder whose images have no label


def learn_from_few_labels(
    source: Any,
    model: ManifoldAutoencoder | None = None,
    labels: Sequence[int] | Int[np.ndarray, " n"] | None = None,
    *,
    minutes: float = 5.0,
    out: str | Path | None = None,
    augment: Callable[[Tensor], Tensor] | None = None,
    settings: Consistency | None = None,
    n_folds: int = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> FewLabelClassifier:
    """Label the unlabelled images, and learn a classifier for new ones.

    A neighbour graph of latents, pixels and perceptual features spreads the labels to all images.
    A LeNet-5 learns from the labelled images, from the graph's answers for the others, and from
    the average of its own weights.

    Args:
        source: a folder with one subfolder per class and a subfolder ``unlabelled``; or whatever
            else `load_dataset` takes, such as an array of images, with ``labels``.
        model: gives the latents. It must not have learned from labels of these images: the
            expected accuracies would be too high. Trained here if left out.
        labels: one class number per image of a data set, -1 for images without label.
        minutes: how long that training may take, as in `transop.fit`.
        out: the run folder of that training; without one the model is not kept.
        augment: changes a batch of images but not their classes, such as a `TransportAugment` or
            a transform of kornia; the network then learns from changed copies.
        settings: how the network is trained.
        n_folds: parts into which the labelled images are divided to measure the expected
            accuracies, each being hidden once; no more than labelled images of the rarest class.
            0 measures nothing and is so many times faster.
        seed: of all randomness.
        progress: announces long work.
    """
    check_kind("model", model, ManifoldAutoencoder, optional=True)
    check_callable("augment", augment, n_arguments=1, optional=True)
    check_kind("settings", settings, Consistency, optional=True)
    check_callable("progress", progress, n_arguments=3)
    seed = check_seed("seed", seed)
    n_folds = check_whole("n_folds", n_folds, least=0)
    data, known, names = _read(source, labels, model)
    fold = _divide(known, n_folds, names, seed)
    n_labelled, n_classes = int((known >= 0).sum()), len(names)
    logger.info("%d labelled images of %d classes, %d in all", n_labelled, n_classes, len(data))
    if model is None:
        unnamed = load_dataset(_without_labels(data), split="random", seed=seed)
        model = fit(unnamed, minutes=minutes, out=out, seed=seed, progress=progress)
        data = load_dataset(data, image_size=model.image_shape[1])
    if missing_modules("perceptual"):
        logger.warning(
            "the graph has no perceptual features, which make it more accurate; install them with: "
            "pip install 'transop[perceptual]'"
        )
    features = joint_features(data, model, np.arange(len(data)), progress=progress)
    graph = weigh_neighbours(features, progress=progress)
    images, wanted = data.batch(slice(None)), settings or Consistency()
    learner = _Learner(images, graph, n_classes, augment, wanted, seed, progress)
    return learner.learn(known, names, fold, data.files)


def _read(
    source: Any, labels: Any, model: ManifoldAutoencoder | None
) -> tuple[ImageDataset, Int[np.ndarray, " n"], tuple[str, ...]]:
    """Give the images, their labels with -1 for unknown ones, and the names of the classes."""
    channels, size = (None, None) if model is None else model.image_shape[:2]
    data = load_dataset(source, channels=channels, image_size=size)
    if labels is not None:
        known = check_indices("labels", labels, len(data), least=-1).numpy()
        if len(known) != len(data):
            raise UserError(f"labels has {len(known)} entries for {len(data)} images; give as many")
        names = tuple(str(c) for c in range(int(known.max()) + 1))
    else:
        given = data.meta.class_names or ()
        named = {old: name for old, name in enumerate(given) if name.lower() not in _UNLABELLED}
        if data.labels is None or len(named) == len(given):
            raise DataError(
                f"'{data.meta.name}' has no subfolder '{_UNLABELLED[0]}'; put labelled images into "
                f"one subfolder per class and all others into '{_UNLABELLED[0]}'"
            )
        new = {old: c for c, old in enumerate(named)}
        known = np.array([new.get(int(label), -1) for label in data.labels])
        names = tuple(named.values())
    if len(names) < 2 or len(np.unique(known[known >= 0])) < len(names):
        found = [f"'{names[c]}'" for c in np.unique(known[known >= 0])]
        raise DataError(
            f"'{data.meta.name}' has labelled images of {', '.join(found) or 'no class'}; give at "
            f"least one of each class, and at least two classes"
        )
    return data, known, names


def _without_labels(data: ImageDataset) -> ImageDataset:
    """Leave out whatever tells images apart, so that nothing can be learned from it."""
    meta = DatasetMeta(data.meta.name, data.meta.source)
    return replace(data, labels=None, attributes=None, factors=None, meta=meta)


def _divide(
    known: Int[np.ndarray, " n"], n_folds: int, names: Sequence[str], seed: int
) -> Int[np.ndarray, " m"] | None:
    """Give every labelled image the number of the part it belongs to.

    Every part holds images of all classes, as many of each as possible.
    """
    labels = known[known >= 0]
    counts = np.bincount(labels)
    if n_folds == 1:
        raise UserError("n_folds = 1 leaves no label to learn from; use 2 or more, or 0")
    if n_folds > counts.min():
        fewer = int(counts.min()) if counts.min() > 1 else 0
        rare = f"'{names[int(counts.argmin())]}' has {counts.min()} labelled image(s)"
        instead = f"{fewer} folds instead of {n_folds}" if fewer else "no expected accuracy"
        logger.warning("%s: %s", rare, instead)
        n_folds = fewer
    if not n_folds:
        return None
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return fold


@dataclass(frozen=True)
class _Learner:
    """Answers for different choices of labelled images, over one graph."""

    images: Float[Tensor, "n c h w"]
    graph: Any  # of the images, as `weigh_neighbours` gives it
    n_classes: int
    augment: Callable[[Tensor], Tensor] | None
    settings: Consistency
    seed: int
    progress: Progress

    def learn(
        self,
        known: Int[np.ndarray, " n"],
        names: tuple[str, ...],
        fold: Int[np.ndarray, " m"] | None,
        files: Iterable[str] | None,
    ) -> FewLabelClassifier:
        """Hide each part of the labels once, then learn from all of them."""
        rows = np.flatnonzero(known >= 0)
        labels = known[rows]
        by_graph = by_network = None
        if fold is not None:
            by_graph, by_network = self.cross_validate(rows, labels, fold)
        opinion = spread_labels(self.graph, rows, labels, self.n_classes)
        listed = None if files is None else tuple(files)
        return FewLabelClassifier(
            self.train(rows, labels, opinion),
            names,
            by_network,
            n_labelled=len(rows),
            n_unlabelled=len(known) - len(rows),
            image_shape=tuple(self.images.shape[1:]),
            graph=GraphLabels(opinion, known, listed, by_graph),
        )

    def cross_validate(
        self,
        rows: Int[np.ndarray, " m"],
        labels: Int[np.ndarray, " m"],
        fold: Int[np.ndarray, " m"],
    ) -> tuple[ExpectedAccuracy, ExpectedAccuracy]:
        """Say how often graph and network are right about labels that they have not seen."""
        by_graph, by_network = np.zeros(len(rows)), np.zeros(len(rows))
        numbers = np.unique(fold)
        for number in self.progress(numbers, "hiding labels, part by part", len(numbers)):
            hidden = fold == number
            opinion = spread_labels(self.graph, rows[~hidden], labels[~hidden], self.n_classes)
            by_graph[hidden] = opinion[rows[hidden]].argmax(1) == labels[hidden]
            network = self.train(rows[~hidden], labels[~hidden], opinion)
            with torch.inference_mode():
                guesses = network(self.images[torch.from_numpy(rows[hidden])]).argmax(1)
            by_network[hidden] = guesses.numpy() == labels[hidden]
        return ExpectedAccuracy.of(by_graph), ExpectedAccuracy.of(by_network)

    def train(
        self,
        rows: Int[np.ndarray, " m"],
        labels: Int[np.ndarray, " m"],
        opinion: Float[np.ndarray, "n k"],
    ) -> nn.Module:
        """Train a network that knows the labels of some rows, and the graph's opinion."""
        generator = torch.Generator().manual_seed(self.seed)
        labelled, truth = torch.from_numpy(rows), torch.from_numpy(labels)

        def draw_labelled(n: int) -> tuple[Tensor, Tensor]:
            chosen = torch.randint(len(labelled), (n,), generator=generator)
            return self.changed(self.images[labelled[chosen]]), truth[chosen]

        def draw_unlabelled(n: int) -> tuple[Tensor, Tensor, Tensor]:
            chosen = torch.randint(len(self.images), (n,), generator=generator)
            plain = self.images[chosen]
            return chosen, plain, self.changed(plain)

        channels, size, _ = self.images.shape[1:]
        with torch.random.fork_rng(devices=[]):  # augmentations may draw from torch's randomness
            torch.manual_seed(self.seed)
            network = LeNet(image_size=size, channels=channels, n_classes=self.n_classes)
            prefer_channels_last(network)
            trained, _ = train_consistently(
                network,
                draw_labelled,
                draw_unlabelled,
                self.settings,
                class_shares=torch.bincount(truth, minlength=self.n_classes) / len(truth),
                opinion=torch.from_numpy(opinion).float(),
                progress=self.progress,
                description="network",
            )
        return trained

    def changed(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """Augment images, if that is wanted."""
        if self.augment is None:
            return images
        found = self.augment(images)
        if not isinstance(found, Tensor) or found.shape != images.shape:
            raise UserError(
                f"augment gave {show(found)} for images of shape {tuple(images.shape)}; it must "
                "give a tensor of the same shape"
            )
        return found.detach()
