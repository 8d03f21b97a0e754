"""Train within a number of minutes: a plan first, and a new look at the clock between phases."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transop.artifacts import RunFolder, write_atomically
from transop.config import Settings, load_settings
from transop.data import ImageDataset, load_dataset
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop.training.fit import build_model, load_model, wanted_phases
from transop.training.phases import Phase, TrainingPlan, train_phases
from transop.training.plan import SHARES, FitPlan, make_plan, most_epochs, with_epochs
from transop.training.session import Deadline

logger = logging.getLogger(__name__)

# Phases that run without a look at the clock, and the share of the time that is theirs.
_STAGES: tuple[tuple[str, ...], ...] = (
    ("autoencoder",),
    ("operators", "fine_tuning"),
    ("classifier", "coefficient_encoder"),
)


def fit_in_time(
    source: Any, minutes: float, out: Path | None, seed: int, device: str, progress: Progress
) -> ManifoldAutoencoder:
    """Choose every setting for some images and minutes, train, and return the model."""
    start, named = time.monotonic(), isinstance(source, str | Path)
    given = source if named else load_dataset(source, progress=progress)
    plan, images = make_plan(given, minutes, seed=seed, device=device, progress=progress)
    for reason in plan.reasons:
        logger.info("%s", reason)
    with TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch if out is None else out))
        return train_in_time(plan, images, folder, start, named=named, progress=progress)


def train_in_time(
    plan: FitPlan,
    images: ImageDataset,
    folder: RunFolder,
    start: float,
    *,
    named: bool,
    progress: Progress = silent,
    announce: Callable[[str], None] = logger.info,
) -> ManifoldAutoencoder:
    """Follow a plan; after each part the rest is fitted into the time that is left.

    Args:
        plan: what to do.
        images: as the plan uses them.
        folder: the run's, new or empty.
        start: when the minutes began, by ``time.monotonic``.
        named: whether the settings name a folder or data set that can be opened again.
        progress: announces long work.
        announce: is told before each part how much time is left.
    """
    settings, end = plan.settings, start + 60 * plan.minutes
    model: ManifoldAutoencoder | None = None
    later = (part for part in plan.seconds if part not in ("planning", "autoencoder"))
    most = most_epochs(settings, "autoencoder", len(images.splits["train"]))
    network = Deadline(end - sum(plan.seconds[part] for part in later), most)
    for number, stage in enumerate(_STAGES):
        left = max(1.0, end - time.monotonic())
        if number > 0:
            settings = _fit_into(plan, settings, stage, left, images)
            write_atomically(folder.config_file, settings.to_toml().encode())
        part = " and ".join(stage).replace("_", " ")
        time_left = f"{left:.0f} s" if left < 90 else f"{left / 60:.1f} min"
        announce(f"{part}: about {time_left} left for everything")

        def phases(chosen: Settings, dataset: ImageDataset, stage: Any = stage) -> dict[str, Phase]:
            return {k: v for k, v in wanted_phases(chosen, dataset).items() if k in stage}

        model = train_phases(
            settings,
            folder,
            TrainingPlan(load_model, build_model, phases, {"autoencoder": network}),
            dataset=None if named and number == 0 else images,
            resume=number > 0,
            progress=progress,
        )
        if number == 0:
            settings = _as_trained(load_settings(folder.config_file), folder)
    assert model is not None
    return model


def _as_trained(settings: Settings, folder: RunFolder) -> Settings:
    """Let the settings say how many epochs of the network the clock allowed."""
    lines = [line for line in folder.read_metrics() if line.get("phase") == "autoencoder"]
    epochs = max((line["epoch"] for line in lines if "epoch" in line), default=None)
    if epochs is None:
        return settings
    section = settings.autoencoder.model_copy(update={"epochs": round(epochs, 2)})
    return settings.model_copy(update={"autoencoder": section})


def _fit_into(
    plan: FitPlan, settings: Settings, stage: tuple[str, ...], left: float, images: ImageDataset
) -> Settings:
    """Give the phases still to come the epochs that fit into the seconds that are left."""
    phases, to_come = ["coefficient_encoder"], SHARES["identity"] + SHARES["closing"]
    if stage[0] == "operators":
        phases.append("operators")
        to_come += SHARES["operators"]
        left -= plan.pace.pairs
    n_images = len(images.splits["train"])
    fitted = with_epochs(settings, plan.pace, max(1.0, left) / to_come, n_images)
    return settings.model_copy(update={name: getattr(fitted, name) for name in phases})
