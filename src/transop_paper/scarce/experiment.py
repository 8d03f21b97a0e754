"""One row with one seed, from labelled images to a test accuracy on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.artifacts import read_json, write_json
from transop.augment import Guard, TransportAugment
from transop.config import Settings, load_settings
from transop.data import ImageDataset, load_dataset
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop_paper.scarce.judges import judge_from_labels
from transop_paper.scarce.protocol import Protocol, draw_labelled, score, train_network
from transop_paper.scarce.rows import Row, known_rows
from transop_paper.scarce.supply import LabelledSupply

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
    settings, model = load_settings(run / "config.toml"), ManifoldAutoencoder.from_pretrained(run)
    images = load_dataset(
        dataset or settings.data.source,
        image_size=settings.data.image_size,
        channels=settings.data.channels,
        progress=progress,
    )
    if images.image_shape != model.image_shape:
        raise UserError(
            f"data set '{images.meta.name}' has images of shape {images.image_shape}, but the run "
            f"in '{run}' takes {model.image_shape}; choose another run"
        )
    return Experiment(images, protocol, out, model, settings, fingerprint_weights(run))


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
    start, protocol, data = time.monotonic(), experiment.protocol, experiment.dataset
    images, labels, _ = draw_labelled(data, protocol.n_per_class, seed)
    supply = open_supply(experiment, row, seed, images, labels, progress)
    supplied = time.monotonic()
    network = train_network(
        supply,
        protocol,
        image_shape=data.image_shape,
        n_classes=data.n_classes,
        seed=seed,
        progress=progress,
        description=f"{row.name}, seed {seed}",
    )
    seconds = {
        "moves": round(supplied - start, 2),
        "training": round(time.monotonic() - supplied, 2),
    }
    result = {
        "row": row.name,
        "seed": seed,
        **{split: score(network, data, split, n_images=protocol.n_scored) for split in _SCORED},
        "labels_used": row.labels_used(),
        "kept_by_guard": round(supply.kept, 4),
        "seconds": seconds,
        "steps_per_second": round(protocol.n_steps / max(seconds["training"], 1e-6), 1),
        "identity": identity,
    }
    write_json(file, result)
    logger.info("%s, seed %d: test accuracy %.2f %%", row.name, seed, result["test"])
    return result


_SCORED = ("validation", "test")


def open_supply(
    experiment: Experiment,
    row: Row,
    seed: int,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    progress: Progress = silent,
) -> LabelledSupply:
    """Prepare the images a row trains on; classifier, encoder and moves are made where needed.

    Args:
        experiment: what all rows share.
        row: how to augment.
        seed: of the augmentations.
        images: the labelled images of this seed.
        labels: their labels.
        progress: announces long work.
    """
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))
    return LabelledSupply(
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


_FIXED_SETTINGS = ("name", "fixed", "n", "m", "alpha", "sigma")


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
    if row.needs_own_judge:
        distortion = known_rows(experiment.dataset.meta.name)["elastic"]
        model = judge_from_labels(
            model,
            experiment.settings,
            experiment.dataset,
            images,
            labels,
            distortion,
            protocol=experiment.protocol,
            seed=seed,
            folder=experiment.out / "judges" / f"seed-{seed}",
            progress=progress,
        )
    return TransportAugment(
        model,
        source=row.moves,
        multiplier=row.multiplier,
        n_steps=row.n_steps,
        guard=None if row.threshold is None else Guard(threshold=row.threshold),
        generator=generator,
    )
