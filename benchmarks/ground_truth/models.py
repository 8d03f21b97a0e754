"""Train what is compared: operators from two kinds of pairs on one network, and two baselines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import transop
from ground_truth.sets import KnownSet
from transop.artifacts import RunFolder
from transop.config import Settings, settings_from_tree
from transop.learning import Objective
from transop.operators import TransportOperators
from transop.pairs import nearest_neighbours
from transop.training import train
from transop_paper.baselines import Baseline
from transop_paper.baselines.settings import BaselineSettings
from transop_paper.baselines.training import train_baseline

NETWORK: dict[str, Any] = {
    "network": "deep",
    "latent_dimension": 32,
    "width": 16,
    "epochs": 60,
    "batch_size": 64,
    "learning_rate": 2e-3,
    "schedule": "one-cycle",
}
QUICK: dict[str, Any] = {"latent_dimension": 6, "width": 4, "epochs": 3, "batch_size": 16}
NEIGHBOURS = 5
LEFT_OUT = {name: {"epochs": 0} for name in ("fine_tuning", "classifier", "coefficient_encoder")}


def _tree(seed: int, network: dict[str, Any]) -> dict[str, Any]:
    return {
        "recipe": "ground-truth",
        "autoencoder": network,
        "operators": {"epochs": 0},
        **LEFT_OUT,
        "runtime": {"seed": seed, "precision": "auto", "device": "cpu"},
    }


def _run(settings: Settings, path: Path, known: KnownSet) -> Any:
    folder = RunFolder(path)
    started = folder.config_file.exists()
    teach = train_baseline if isinstance(settings, BaselineSettings) else train
    return teach(settings, folder, dataset=known.dataset(), resume=started)


def train_network(
    known: KnownSet, seed: int, path: Path, network: dict[str, Any]
) -> transop.ManifoldAutoencoder:
    """Train the autoencoder that all operators share."""
    settings = settings_from_tree(_tree(seed, network), Settings)
    model: transop.ManifoldAutoencoder = _run(settings, path, known)
    return model


def train_rival(
    method: str, known: KnownSet, seed: int, path: Path, network: dict[str, Any]
) -> Baseline:
    """Train a contractive or beta-variational autoencoder on the same images, as long."""
    tree = {**_tree(seed, network), "method": method}
    if method == "beta-vae":
        tree["beta_vae"] = {"beta": 1.0}
    settings = settings_from_tree(tree, BaselineSettings)
    rival: Baseline = _run(settings, path, known)
    return rival


@torch.no_grad()
def encode(model: Any, known: KnownSet) -> Tensor:
    """Encode all images."""
    data = known.dataset()
    rows = np.arange(len(data))
    parts = np.split(rows, range(250, len(rows), 250))
    return torch.cat([model.encode(data.batch(part)) for part in parts]).float()


def pair_rows(z: Tensor, known: KnownSet, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """List the training pairs of a kind, as rows: nearest latents, or the next moment."""
    if kind == "time":
        pairs = known.pairs_by_time()
        return pairs[:, 0], pairs[:, 1]
    near = nearest_neighbours(z[known.train], NEIGHBOURS).numpy()
    return known.train.repeat(NEIGHBOURS), known.train[near.ravel()]


@dataclass(frozen=True)
class Lesson:
    """Pairs of one kind, and how many operators are learned from them with which weights."""

    z0: Tensor
    z1: Tensor
    n_operators: int
    weights: Objective
    seed: int

    @classmethod
    def of(cls, z: Tensor, known: KnownSet, kind: str, n_operators: int, seed: int) -> Lesson:
        """Let the pairs choose the weights of the objective."""
        z0, z1 = (z[rows] for rows in pair_rows(z, known, kind))
        chance = torch.Generator().manual_seed(seed)
        weights = transop.choose_objective(z0, z1, n_operators, generator=chance)
        return cls(z0, z1, n_operators, weights, seed)

    def learn(self, n_steps: int, first: Tensor | None = None) -> transop.LearnedOperators:
        """Learn operators from random ones; the first of them may be given."""
        chance = torch.Generator().manual_seed(self.seed)
        initial = TransportOperators(self.n_operators, self.z0.shape[1], generator=chance)
        operators = initial.operators.detach().clone()
        if first is not None:
            operators[0] = first
        return transop.learn_operators(
            self.z0,
            self.z1,
            self.n_operators,
            **asdict(self.weights),
            n_steps=n_steps,
            batch_size=min(200, len(self.z0)),
            learning_rate=1e-2,
            initial=operators,
            generator=torch.Generator().manual_seed(self.seed),
        )
