"""Rows that also learn from unlabelled training images: the rivals, our entry, the ablations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sparse
import torch
from filelock import FileLock
from jaxtyping import Float, Int
from torch import Tensor, nn

from transop.errors import UserError
from transop.pairs import nearest_neighbours
from transop.semi_supervised import (
    Consistency,
    joint_features,
    spread_labels,
    train_consistently,
    weigh_neighbours,
)
from transop_paper.scarce.batches import TrainingImages, distort_elastically
from transop_paper.scarce.fast_lenet import FastLeNet
from transop_paper.scarce.few_label_identity import find_identity, learn_opinion
from transop_paper.scarce.moved import Mover
from transop_paper.scarce.protocol import Classify, new_network
from transop_paper.scarce.rows import Row, Unlabelled, known_rows

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder
    from transop_paper.scarce.experiment import Experiment

_NEAREST = 10
_AT_ONCE = 1_000
# Rows, which of them stay as they are, and the network in training, to images.
Move = Callable[[Tensor, Tensor, nn.Module], Tensor]
Trained = tuple[Classify, dict[str, float]]  # a classifier, and facts about its training


class UnlabelledRow:
    """Trains a row that has ``row.unlabelled`` with one seed; ``labelled`` are rows of the data."""

    def __init__(
        self,
        experiment: Experiment,
        row: Row,
        seed: int,
        labelled: Int[np.ndarray, " m"],
        labels: Int[Tensor, " m"],
    ) -> None:
        assert row.unlabelled is not None
        self._experiment, self._row, self._seed = experiment, row, seed
        self._wanted: Unlabelled = row.unlabelled
        self._data, self._protocol = experiment.dataset, experiment.protocol
        self._train_rows = self._data.splits["train"]
        self._train_images = self._data.batch(self._train_rows)
        places = {int(row): place for place, row in enumerate(self._train_rows)}
        self._labelled, self._labels = np.array([places[int(row)] for row in labelled]), labels
        self._generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))
        if row.needs_model and experiment.model is None:
            raise UserError(f"row '{row.name}' needs a trained run; give one with --run")

    def train(self) -> Trained:
        """Train the row and give its classifier."""
        if self._wanted.method == "graph":
            return self._graph_classifier(self.graph_opinion()), {}
        opinion, move = self._opinion(), None
        lengths: list[float] = []  # of moves, relative to the points they start from
        if self._wanted.moves is not None:
            assert opinion is not None, "moves need an opinion to keep"
            move = self._moves(self._mover(opinion), lengths)
        classify, facts = self._train_consistently(opinion, move)
        if self._wanted.vote:
            assert opinion is not None, "the graph votes with its opinion"
            classify = self._with_vote(classify, opinion)
        return classify, facts | ({"relative_move": float(np.mean(lengths))} if lengths else {})

    def graph_opinion(self) -> Float[np.ndarray, "n k"]:
        """Spread the labels over the neighbour graph of the training images."""
        file = self._shared("graph", lambda path: sparse.save_npz(path, self._make_graph()))
        graph = sparse.load_npz(file)
        return spread_labels(graph, self._labelled, self._labels.numpy(), self._data.n_classes)

    def _shared(self, name: str, make: Callable[[Path], None]) -> Path:
        """Make a file that all seeds share, unless it is there; ``make`` writes it."""
        file = self._experiment.shared_file(f"{name}-{self._wanted.features}.npz")
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock"):
            if not file.exists():
                aside = file.with_name(f"aside-{file.name}")
                make(aside)
                aside.replace(file)
        return file

    def _make_graph(self) -> sparse.csr_matrix:
        features = self._features()[self._train_rows]
        return weigh_neighbours(features, progress=self._experiment.progress)

    def _features(self) -> Float[Tensor, "n f"]:
        """Describe all images of the data set."""

        def make(path: Path) -> None:
            data, kind, progress = self._data, self._wanted.features, self._experiment.progress
            if kind == "joint":
                found = joint_features(data, self._model, self._train_rows, progress=progress)
            else:
                describe = self._model.encode if kind == "latent" else lambda x: x.flatten(1)
                parts = torch.split(torch.arange(len(data)), _AT_ONCE)
                found = torch.cat([describe(data.batch(part)) for part in parts])
            np.savez(path, features=found.numpy())

        with np.load(self._shared("features", make), allow_pickle=False) as stored:
            return torch.from_numpy(stored["features"])

    @property
    def _model(self) -> ManifoldAutoencoder:
        assert self._experiment.model is not None
        return self._experiment.model

    def _graph_classifier(self, opinion: Float[np.ndarray, "n k"]) -> Classify:
        """Classify a held-out image by the mean opinion on its nearest training images."""

        def make(path: Path) -> None:
            features, n_nearest = self._features(), min(_NEAREST, len(self._train_rows))
            known, places = features[self._train_rows], np.zeros((len(features), n_nearest), int)
            held_out = np.setdiff1d(np.arange(len(features)), self._train_rows)
            for rows in np.array_split(held_out, max(1, len(held_out) // _AT_ONCE)):
                distances = torch.cdist(features[rows], known)
                places[rows] = distances.topk(n_nearest, largest=False).indices.numpy()
            np.savez(path, places=places)

        with np.load(self._shared("nearest", make), allow_pickle=False) as stored:
            places = stored["places"]
        return lambda rows: torch.from_numpy(opinion[places[rows]]).mean(1)

    def _opinion(self) -> Float[Tensor, "n k"] | None:
        """Give the opinion on all training images that is known before training."""
        if self._wanted.opinion is None:
            return None
        if self._wanted.opinion == "graph":
            return torch.from_numpy(self.graph_opinion()).float()
        elastic = known_rows(self._data.meta.name)["elastic"]
        images = TrainingImages(
            dataclasses.replace(elastic, alpha=self._row.alpha, sigma=self._row.sigma),
            self._train_images[self._labelled],
            self._labels,
            generator=self._generator,
        )
        first = self._experiment.train(images, self._seed, "first network")
        with torch.inference_mode():
            parts = torch.split(self._train_images, _AT_ONCE)
            return torch.cat([first(part).softmax(1) for part in parts]).clone()

    def _mover(self, opinion: Float[Tensor, "n k"]) -> Mover:
        """Prepare moves whose scales know no label, guarded by the opinion."""
        model = find_identity(self._experiment)
        latents = torch.cat(
            [model.encode(part) for part in torch.split(self._train_images, _AT_ONCE)]
        )
        model.classifier = learn_opinion(latents, opinion, self._seed, self._experiment.progress)
        model.classifier_domain, model.classifier_recipe = "latent", None
        k, kind = min(_NEAREST, len(latents) - 1), self._wanted.moves
        assert kind is not None
        return Mover(
            model,
            latents,
            nearest_neighbours(latents, k) if kind == "lines" else torch.empty(0, k).long(),
            kind=kind,
            multiplier=self._row.multiplier,
            n_steps=self._row.n_steps,
            threshold=self._row.threshold,
            residual=self._wanted.residual,
            generator=self._generator,
        )

    def _moves(self, mover: Mover, lengths: list[float]) -> Move:
        """Give a function that shows moved copies of training images, and notes their lengths."""
        images, progress = self._train_images, self._experiment.progress
        if mover.kind == "worst":
            parts = torch.split(torch.arange(len(images)), _AT_ONCE)
            lost = torch.cat(
                [mover.lost(part, images[part]).expand_as(images[part]) for part in parts]
            )

            def draw_worst(rows: Tensor, stays: Tensor, network: nn.Module) -> Tensor:
                shown, going = images[rows], rows[~stays]
                moved = mover.worst(going, shown[~stays], network, lost[going])
                lengths.append(float(mover.relative_lengths(going, moved).mean()))
                shown[~stays] = (mover.draw(moved) + lost[going]).clamp(0, 1)
                return shown

            return draw_worst
        pool, length = mover.fill_pool(images.__getitem__, self._protocol.n_copies, progress)
        lengths.append(length)

        def draw_from_pool(rows: Tensor, stays: Tensor, network: nn.Module) -> Tensor:
            copies = torch.randint(pool.shape[1], rows.shape, generator=self._generator)
            moved = pool[rows, copies].float().div_(255)
            return torch.where(stays[:, None, None, None], images[rows], moved)

        return draw_from_pool

    def _train_consistently(
        self, opinion: Float[Tensor, "n k"] | None, move: Move | None
    ) -> Trained:
        data, labelled, labels = self._data, torch.from_numpy(self._labelled), self._labels
        wanted, protocol = self._wanted, self._protocol
        network = new_network(data.image_shape, data.n_classes, self._seed, FastLeNet)

        def changed(rows: Tensor) -> Tensor:
            if move is None:
                return self._distorted(self._train_images[rows])
            stays = torch.rand(len(rows), generator=self._generator) < protocol.real_share
            return self._distorted(move(rows, stays, network))

        def draw_known(n: int) -> tuple[Tensor, Tensor]:
            chosen = torch.randint(len(labelled), (n,), generator=self._generator)
            return changed(labelled[chosen]), labels[chosen]

        def draw_unlabelled(n: int) -> tuple[Tensor, Tensor, Tensor]:
            rows = torch.randint(len(self._train_rows), (n,), generator=self._generator)
            return rows, self._train_images[rows], changed(rows)

        trained, facts = train_consistently(
            network,
            draw_known,
            draw_unlabelled,
            Consistency(
                teacher=wanted.teacher,
                opinion_share=wanted.opinion_share,
                threshold=wanted.believe,
                balanced=wanted.balanced,
                loss=wanted.loss,
                weight=wanted.weight,
                n_steps=protocol.n_unlabelled_steps,
                n_labelled=protocol.batch_size,
                n_unlabelled=protocol.unlabelled_batch_size,
                learning_rate=wanted.learning_rate,
                weight_decay=protocol.weight_decay,
            ),
            class_shares=torch.bincount(labels, minlength=data.n_classes) / len(labels),
            opinion=opinion,
            progress=self._experiment.progress,
            description=f"{self._row.name}, seed {self._seed}",
        )
        return lambda rows: trained(data.batch(rows)).log_softmax(1), facts

    def _with_vote(self, network: Classify, opinion: Float[Tensor, "n k"]) -> Classify:
        """Let the graph vote beside the network."""
        graph, share = self._graph_classifier(opinion.numpy()), self._wanted.vote

        def classify(rows: Int[np.ndarray, " b"]) -> Tensor:
            known = graph(rows).clamp_min(1e-6).log()
            return share * known + (1 - share) * network(rows)

        return classify

    def _distorted(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        if not self._wanted.elastic:
            return images
        return distort_elastically(
            images, alpha=self._row.alpha, sigma=self._row.sigma, generator=self._generator
        )
