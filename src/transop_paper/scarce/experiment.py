"""Train and score rows with several seeds, keep the results as files, and skip those there are."""

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
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.artifacts import read_json, write_json
from transop.augment import Guard, TransportAugment
from transop.config import Settings
from transop.data import ImageDataset, load_dataset, load_run_data, with_source
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.networks import LeNet
from transop.progress import Progress, silent
from transop.run import Run
from transop_paper.scarce.batches import TrainingImages
from transop_paper.scarce.few_label_identity import find_identity, learn_identity
from transop_paper.scarce.moved import EqualNoise
from transop_paper.scarce.protocol import (
    Classify,
    MakeImages,
    Protocol,
    draw_labelled,
    score,
    train_network,
)
from transop_paper.scarce.rows import Row
from transop_paper.scarce.unlabelled import UnlabelledRow

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Experiment:
    """What all rows share."""

    dataset: ImageDataset  # labelled images with a training, a validation and a test split
    protocol: Protocol  # how the small network is trained
    out: Path  # where results are kept
    model: ManifoldAutoencoder | None = None  # of a trained run; None if no row needs one
    settings: Settings | None = None  # of that run
    fingerprint: str | None = None  # tells that run's weights from any other's
    progress: Progress = silent  # announces long work

    @classmethod
    def of(cls, run: Run, protocol: Protocol, out: Path, images: ImageDataset) -> Self:
        """Set up an experiment with the model of a run."""
        weights = (run.path / "model.safetensors").read_bytes()
        fingerprint = hashlib.blake2b(weights, digest_size=8).hexdigest()
        return cls(images, protocol, out, run.model, run.settings, fingerprint, run.progress)

    def train(
        self, images: MakeImages, seed: int, description: str, protocol: Protocol | None = None
    ) -> LeNet:
        """Train the small network on images that are made while training goes on."""
        return train_network(
            images,
            protocol or self.protocol,
            image_shape=self.dataset.image_shape,
            n_classes=self.dataset.n_classes,
            seed=seed,
            progress=self.progress,
            description=description,
        )

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

    The data set is the one named, else the run's own, else MNIST.
    """
    if run is None:
        images = load_dataset(dataset or "mnist", progress=progress)
        return Experiment(images, protocol, out, progress=progress)
    opened = Run.open(run, progress=progress)
    images = opened.dataset
    if dataset is not None:
        images = load_run_data(with_source(opened.settings, dataset), progress=progress)
    if images.image_shape != opened.model.image_shape:
        raise UserError(
            f"data set '{images.meta.name}' has images of shape {images.image_shape}, but the run "
            f"in '{run}' takes {opened.model.image_shape}; choose another run"
        )
    return Experiment.of(opened, protocol, out, images)


def run_row(experiment: Experiment, row: Row, seed: int, *, force: bool = False) -> dict[str, Any]:
    """Train and score one row with one seed, unless its result is on disk already.

    The seed decides the labelled images, the first weights and the augmentations.
    """
    file, identity = experiment.result_file(row, seed), identify(experiment, row, seed)
    if file.exists() and not force:
        stored: dict[str, Any] = read_json(file)
        if stored.get("identity") != identity:
            raise UserError(
                f"'{file}' was computed with other settings, data or another run; choose another "
                "--out, or compute it again with --force"
            )
        return stored
    start = time.monotonic()
    if row.unlabelled is None:
        network, facts = train_on_labelled(experiment, row, seed)
        classify: Classify = lambda rows: network(experiment.dataset.batch(rows))  # noqa: E731
    else:
        _, labels, known = draw_labelled(experiment.dataset, experiment.protocol.n_per_class, seed)
        classify, found = UnlabelledRow(experiment, row, seed, known, labels).train()
        rounded = {name: round(value, 4) for name, value in found.items()}
        facts = {"kept_by_guard": 1.0, "seconds": {}, **rounded}
    facts["seconds"]["all"] = round(time.monotonic() - start, 2)
    n_scored = experiment.protocol.n_scored
    result = {
        "row": row.name,
        "seed": seed,
        **{
            split: score(classify, experiment.dataset, split, n_images=n_scored)
            for split in ("validation", "test")
        },
        "labels_used": row.labels_used(),
        **facts,
        "identity": identity,
    }
    write_json(file, result)
    logger.info("%s, seed %d: test accuracy %.2f %%", row.name, seed, result["test"])
    return result


def train_on_labelled(experiment: Experiment, row: Row, seed: int) -> tuple[LeNet, dict[str, Any]]:
    """Train the small network on the labelled images of a seed; say how that went."""
    start, protocol = time.monotonic(), experiment.protocol
    images, labels, _ = draw_labelled(experiment.dataset, protocol.n_per_class, seed)
    training_images = make_training_images(experiment, row, seed, images, labels)
    prepared = time.monotonic()
    network = experiment.train(training_images, seed, f"{row.name}, seed {seed}")
    seconds = time.monotonic() - prepared
    return network, {
        "kept_by_guard": round(training_images.kept, 4),
        "seconds": {"moves": round(prepared - start, 2), "training": round(seconds, 2)},
        "steps_per_second": round(protocol.n_steps / max(seconds, 1e-6), 1),
    }


def make_training_images(
    experiment: Experiment,
    row: Row,
    seed: int,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
) -> TrainingImages:
    """Prepare the images a row trains on, with the classifier, encoder and moves it needs."""
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))
    augment: TransportAugment | EqualNoise | None = None
    model = experiment.model
    if row.moves is not None:
        if model is None or experiment.settings is None:
            raise UserError(f"row '{row.name}' needs a trained run; give one with --run")
        if row.labels == "none":
            model = find_identity(experiment)
        elif row.needs_own_identity:
            model = learn_identity(experiment, images, labels, seed)
        augment = TransportAugment(
            model,
            source="prior" if row.moves == "prior" else "encoder",
            multiplier=row.multiplier,
            n_steps=row.n_steps,
            guard=None if row.threshold is None else Guard(threshold=row.threshold),
            generator=generator,
        )
        if row.moves == "noise":
            augment = EqualNoise(augment, generator)
    return TrainingImages(
        row,
        images,
        labels,
        augment=augment,
        real_share=experiment.protocol.real_share,
        pool_size=experiment.protocol.pool_size,
        generator=generator,
        progress=experiment.progress,
    )


def identify(experiment: Experiment, row: Row, seed: int) -> dict[str, Any]:
    """Collect all that decides a result, so that no result is taken for another."""
    settings = dataclasses.asdict(row)
    decisive = set(settings) - {"title", "paper"} if row.needs_model else _FIXED_SETTINGS
    settings = {key: value for key, value in settings.items() if key in decisive}
    return {
        "row": settings,
        "seed": seed,
        "protocol": dataclasses.asdict(experiment.protocol),
        "dataset": experiment.dataset.content_hash(),
        "run": experiment.fingerprint if row.needs_model else None,
    }


_FIXED_SETTINGS = {"name", "fixed", "n", "m", "alpha", "sigma", "unlabelled"}


def run_table(
    experiment: Experiment,
    rows: Sequence[Row],
    n_seeds: int,
    *,
    n_processes: int = 1,
    force: bool = False,
) -> list[dict[str, Any]]:
    """Compute every row with seeds 0 to ``n_seeds`` - 1, skipping results that are on disk.

    Each of ``n_processes`` runs on one thread.
    """
    tasks, progress = tasks_in_order(rows, n_seeds, n_processes), experiment.progress
    if n_processes <= 1:
        return [
            run_row(experiment, row, seed, force=force)
            for row, seed in progress(tasks, "rows and seeds", len(tasks))
        ]
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    quiet = dataclasses.replace(experiment, progress=silent)
    with ProcessPoolExecutor(n_processes, context, _receive, (quiet,)) as pool:
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
