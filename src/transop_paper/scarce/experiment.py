"""Train and score rows with several seeds, keep the results as files, and skip those there are."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.artifacts import read_json, write_json
from transop.augment import Guard, TransportAugment
from transop.config import Settings
from transop.data import ImageDataset, load_dataset, load_run_data, with_source
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop.run import Run
from transop_paper.scarce.batches import TrainingImages
from transop_paper.scarce.few_label_identity import find_identity, learn_identity
from transop_paper.scarce.protocol import Protocol, draw_labelled, score, train_network
from transop_paper.scarce.rows import Row
from transop_paper.scarce.unlabelled import Classify, UnlabelledRow

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Experiment:
    """What all rows share.

    Attributes:
        dataset: labelled images with a training, a validation and a test split.
        protocol: how the small network is trained.
        out: where results are kept.
        model: of a trained run; None if no row needs one.
        settings: of that run.
        fingerprint: tells that run's weights from any other's.
    """

    dataset: ImageDataset
    protocol: Protocol
    out: Path
    model: ManifoldAutoencoder | None = None
    settings: Settings | None = None
    fingerprint: str | None = None

    def result_file(self, row: Row, seed: int) -> Path:
        """Name the file of one row and seed."""
        name = row.name.replace("@", "--").replace(",", "-").replace("=", "_")
        return self.out / "results" / f"{name}.seed-{seed}.json"

    def shared_file(self, name: str) -> Path:
        """Name a file that depends on data and run alone."""
        facts = {"dataset": self.dataset.content_hash(), "run": self.fingerprint}
        return self.out / "shared" / _digest(facts) / name

    def identity_folder(self, seed: int, source: str, **more: Any) -> Path:
        """Name the folder of what a seed's labels teach, after all that decides it."""
        facts = {
            "n_per_class": self.protocol.n_per_class,
            "dataset": self.dataset.content_hash(),
            "run": self.fingerprint,
            "settings": None if self.settings is None else self.settings.to_toml(),
            "source": source,
            **more,
        }
        return self.out / "identities" / f"seed-{seed}-{_digest(facts)}"


def _digest(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def open_experiment(
    out: Path,
    protocol: Protocol,
    *,
    run: Path | None = None,
    dataset: str | None = None,
    progress: Progress = silent,
) -> Experiment:
    """Load what the rows need.

    Args:
        out: where results are kept.
        protocol: how the small network is trained.
        run: a trained run, for rows with learned moves.
        dataset: a data set's name; the run's own, or MNIST, if left out.
        progress: announces long work.
    """
    if run is None:
        images = load_dataset(dataset or "mnist", progress=progress)
        return Experiment(images, protocol, out)
    opened = Run.open(run, progress=progress)
    images = opened.dataset
    if dataset is not None:
        images = load_run_data(with_source(opened.settings, dataset), progress=progress)
    if images.image_shape != opened.model.image_shape:
        raise UserError(
            f"data set '{images.meta.name}' has images of shape {images.image_shape}, but the run "
            f"in '{run}' takes {opened.model.image_shape}; choose another run"
        )
    fingerprint = fingerprint_weights(run)
    return Experiment(images, protocol, out, opened.model, opened.settings, fingerprint)


def fingerprint_weights(run: Path) -> str:
    """Give a short text that tells a run's weights from any other's."""
    weights = (run / "model.safetensors").read_bytes()
    return hashlib.blake2b(weights, digest_size=8).hexdigest()


def run_row(
    experiment: Experiment, row: Row, seed: int, *, force: bool = False, progress: Progress = silent
) -> dict[str, Any]:
    """Train and score one row with one seed, unless its result is on disk already.

    Args:
        experiment: what all rows share.
        row: how to augment.
        seed: which labelled images, which first weights, which augmentations.
        force: compute again what is there.
        progress: announces long work.
    """
    file, identity = experiment.result_file(row, seed), _identity(experiment, row, seed)
    if file.exists() and not force:
        stored: dict[str, Any] = read_json(file)
        if stored.get("identity") != identity:
            raise UserError(
                f"'{file}' was computed with other settings, data or another run; choose another "
                "--out, or compute it again with --force"
            )
        return stored
    train = _train_on_labelled if row.unlabelled is None else _train_on_unlabelled
    start = time.monotonic()
    classify, facts = train(experiment, row, seed, progress)
    facts["seconds"]["all"] = round(time.monotonic() - start, 2)
    n_scored = experiment.protocol.n_scored
    result = {
        "row": row.name,
        "seed": seed,
        **{
            split: score(classify, experiment.dataset, split, n_images=n_scored)
            for split in _SCORED
        },
        "labels_used": row.labels_used(),
        **facts,
        "identity": identity,
    }
    write_json(file, result)
    logger.info("%s, seed %d: test accuracy %.2f %%", row.name, seed, result["test"])
    return result


_SCORED = ("validation", "test")


def _train_on_labelled(
    experiment: Experiment, row: Row, seed: int, progress: Progress
) -> tuple[Classify, dict[str, Any]]:
    start, protocol, data = time.monotonic(), experiment.protocol, experiment.dataset
    images, labels, _ = draw_labelled(data, protocol.n_per_class, seed)
    training_images = make_training_images(experiment, row, seed, images, labels, progress)
    prepared = time.monotonic()
    network = train_network(
        training_images,
        protocol,
        image_shape=data.image_shape,
        n_classes=data.n_classes,
        seed=seed,
        progress=progress,
        description=f"{row.name}, seed {seed}",
    )
    seconds = time.monotonic() - prepared
    return network, {
        "kept_by_guard": round(training_images.kept, 4),
        "seconds": {"moves": round(prepared - start, 2), "training": round(seconds, 2)},
        "steps_per_second": round(protocol.n_steps / max(seconds, 1e-6), 1),
    }


def _train_on_unlabelled(
    experiment: Experiment, row: Row, seed: int, progress: Progress
) -> tuple[Classify, dict[str, Any]]:
    protocol, data = experiment.protocol, experiment.dataset
    _, labels, rows = draw_labelled(data, protocol.n_per_class, seed)
    trained = UnlabelledRow(experiment, row, seed, rows, labels, progress).train()
    facts = {name: round(value, 4) for name, value in trained.facts.items()}
    return trained.classify, {"kept_by_guard": 1.0, "seconds": {}, **facts}


def make_training_images(
    experiment: Experiment,
    row: Row,
    seed: int,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    progress: Progress = silent,
) -> TrainingImages:
    """Prepare the images a row trains on, with the classifier, encoder and moves it needs."""
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))
    return TrainingImages(
        row,
        images,
        labels,
        augment=_make_augment(experiment, row, seed, images, labels, generator, progress),
        real_share=experiment.protocol.real_share,
        pool_size=experiment.protocol.pool_size,
        generator=generator,
        progress=progress,
    )


def _identity(experiment: Experiment, row: Row, seed: int) -> dict[str, Any]:
    """Collect all that decides a result, so that no result is taken for another."""
    settings = dataclasses.asdict(row)
    for text in ("title", "paper"):
        del settings[text]
    if not row.needs_model:
        settings = {key: value for key, value in settings.items() if key in _FIXED_SETTINGS}
    return {
        "row": settings,
        "seed": seed,
        "protocol": dataclasses.asdict(experiment.protocol),
        "dataset": experiment.dataset.content_hash(),
        "run": experiment.fingerprint if row.needs_model else None,
    }


_FIXED_SETTINGS = ("name", "fixed", "n", "m", "alpha", "sigma", "unlabelled")


def _make_augment(
    experiment: Experiment,
    row: Row,
    seed: int,
    images: torch.Tensor,
    labels: torch.Tensor,
    generator: torch.Generator,
    progress: Progress,
) -> TransportAugment | None:
    if row.moves is None:
        return None
    model = experiment.model
    if model is None or experiment.settings is None:
        raise UserError(f"row '{row.name}' needs a trained run; give one with --run")
    if row.labels == "none":
        model = find_identity(experiment, progress=progress)
    elif row.needs_own_identity:
        model = learn_identity(experiment, images, labels, seed=seed, progress=progress)
    return TransportAugment(
        model,
        source=row.moves,
        multiplier=row.multiplier,
        n_steps=row.n_steps,
        guard=None if row.threshold is None else Guard(threshold=row.threshold),
        generator=generator,
    )


def run_table(
    experiment: Experiment,
    rows: Sequence[Row],
    n_seeds: int,
    *,
    n_processes: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Compute every row with seeds 0 to ``n_seeds`` - 1, skipping results that are on disk.

    Args:
        experiment: what all rows share.
        rows: the rows.
        n_seeds: how many seeds.
        n_processes: how many to run at once, each on one thread.
        force: compute again what is there.
        progress: announces long work.
    """
    tasks = tasks_in_order(rows, n_seeds, n_processes)
    if n_processes <= 1:
        return [
            run_row(experiment, row, seed, force=force, progress=progress)
            for row, seed in progress(tasks, "rows and seeds", len(tasks))
        ]
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, context, _receive, (experiment,)) as pool:
        futures = {pool.submit(_compute, row, seed, force): row for row, seed in tasks}
        done = as_completed(futures)
        try:
            return [f.result() for f in progress(done, "rows and seeds", len(tasks))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def tasks_in_order(rows: Sequence[Row], n_seeds: int, n_processes: int) -> list[tuple[Row, int]]:
    """Put seeds outside, so that a table interrupted early has every row.

    Several processes work on different seeds of one row: rows of one seed may share a classifier
    that is trained once, and would wait for each other.
    """
    together = max(n_processes, 1)
    return [
        (row, seed)
        for first in range(0, n_seeds, together)
        for row in rows
        for seed in range(first, min(first + together, n_seeds))
    ]


_experiment: Experiment | None = None


def _receive(experiment: Experiment) -> None:
    """Keep the experiment for all tasks of this process."""
    global _experiment
    torch.set_num_threads(1)
    _experiment = experiment


def _compute(row: Row, seed: int, force: bool) -> dict[str, Any]:
    assert _experiment is not None
    return run_row(_experiment, row, seed, force=force)
