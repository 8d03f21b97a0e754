"""Run the phases of a recipe one after another, skipping those that are done."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from transop.artifacts import RunFolder, describe_environment, write_atomically, write_json
from transop.config import Settings, load_settings
from transop.data import ImageDataset, load_dataset, require_trainable
from transop.errors import ArtifactError, DataError, SettingsError
from transop.evaluation import half_way_scale
from transop.identity import choose_source
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder, prefer_channels_last
from transop.operators import TransportOperators
from transop.progress import Progress, silent
from transop.sharing import is_first_process
from transop.training.autoencoder import obtain_autoencoder
from transop.training.classifier import train_classifier
from transop.training.coefficient_encoder import train_coefficient_encoder
from transop.training.diagnostics import OperatorMonitor
from transop.training.fine_tuning import fine_tune
from transop.training.latents import encode_split
from transop.training.measures import measure_reconstruction
from transop.training.operators import train_operators
from transop.training.pairing import make_pairs
from transop.training.processes import run_on_several
from transop.training.session import Session, count_processes, make_fabric
from transop_paper.baselines import BASELINES, Baseline
from transop_paper.baselines.training import BASELINE_PHASES, first_or_saved_baseline

logger = logging.getLogger(__name__)

_SMALLEST, _LARGEST, _USUAL = 16, 128, 64  # pixels our autoencoders take, and a good size

# A phase changes the model in place and returns the numbers worth keeping.
Phase = Callable[[Session, Any, ImageDataset], dict[str, Any]]


def fit(
    source: Any,
    recipe: str | Path = "demo",
    *,
    out: str | Path | None = None,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    device: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> ManifoldAutoencoder:
    """Train a manifold autoencoder on images and return it.

    Args:
        source: a data set's name, a folder of images, an array, a tensor or an `ImageDataset`.
        recipe: a shipped recipe's name or a TOML file.
        out: the run folder; without one nothing but the returned model is kept.
        overrides: settings such as ``"autoencoder.epochs=2"``.
        seed: replaces ``runtime.seed``.
        device: replaces ``runtime.device``.
        resume: continue the run in ``out``.
        progress: announces long work.
    """
    extra = [f"runtime.seed={seed}"] if seed is not None else []
    extra += [f"runtime.device={device}"] if device is not None else []
    if isinstance(source, str | Path):
        extra.append(f"data.source={str(source)!r}")
    settings = load_settings(recipe, [*overrides, *extra])
    if settings.method != "mae":
        raise SettingsError(
            f"fit trains manifold autoencoders, not method = '{settings.method}'; train a baseline "
            f"with: transop train {recipe} --method {settings.method}"
        )
    dataset = None if isinstance(source, str | Path) else load_dataset(source)
    with TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch if out is None else out))
        model = train(settings, folder, dataset=dataset, resume=resume, progress=progress)
    assert isinstance(model, ManifoldAutoencoder)
    return model


def train(
    settings: Settings,
    folder: RunFolder,
    *,
    dataset: ImageDataset | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> ManifoldAutoencoder | Baseline:
    """Run the phases a run folder is missing and return the model.

    Args:
        settings: the resolved settings.
        folder: where everything is written; it must be new, empty or, with ``resume``, a run
            with the same settings.
        dataset: the images, if they are not to be loaded by ``settings.data``.
        resume: continue instead of starting.
        progress: announces long work.
    """
    progress = progress or silent
    fabric = make_fabric(settings.runtime)
    # torchrun starts this function once per device, but only one of them writes.
    with folder.locked() if is_first_process() else nullcontext():
        if is_first_process():
            _prepare(settings, folder, resume)
        if count_processes(settings.runtime) == 1:
            return _work(fabric, settings, folder, dataset, progress)
        work = partial(_work, settings=settings, folder=folder, dataset=dataset, progress=silent)
        run_on_several(fabric, work)
        return _saved_model(settings, folder)


def _work(
    fabric: Any,
    settings: Settings,
    folder: RunFolder,
    dataset: ImageDataset | None,
    progress: Progress,
) -> ManifoldAutoencoder | Baseline:
    """Do the whole run on one device, alone or as one of several."""
    session = Session(settings, folder, fabric, progress)
    session.recall_findings()
    with session.catching_interrupts():
        images = load_run_data(settings, dataset=dataset, progress=progress)
        return _run_phases(session, images)


def _saved_model(settings: Settings, folder: RunFolder) -> ManifoldAutoencoder | Baseline:
    """Load what the processes of a parallel run have left."""
    if settings.method in BASELINES:
        return BASELINES[settings.method].from_pretrained(folder.path)
    return ManifoldAutoencoder.from_pretrained(folder.path)


def _run_phases(session: Session, dataset: ImageDataset) -> ManifoldAutoencoder | Baseline:
    model: ManifoldAutoencoder | Baseline
    if session.settings.method in BASELINES:
        model = first_or_saved_baseline(session, dataset)
        phases = BASELINE_PHASES[session.settings.method]
    else:
        model = _first_or_saved_model(session, dataset)
        phases = wanted_phases(session.settings, dataset)
    for name, phase in phases.items():
        if name in model.phases:
            logger.info("%s: already done", name)
            if session.fabric.is_global_zero:
                session.folder.drop_checkpoints(name)
            continue
        start = time.monotonic()
        numbers = phase(session, model, dataset)
        model.phases = (*model.phases, name)
        model.eval()
        if session.fabric.is_global_zero:
            _conclude(session, model, name, time.monotonic() - start, numbers)
    session.ranks.wait()  # under torchrun the other processes load what the first has written
    for (phase_name, _), finding in session.findings.items():
        logger.warning("noticed during %s: %s", phase_name, finding)
    return model


def _conclude(
    session: Session,
    model: ManifoldAutoencoder | Baseline,
    phase: str,
    seconds: float,
    numbers: dict[str, Any],
) -> None:
    """Store what a phase has led to.

    The model comes after what is said about it: only with the model is the phase done, so a power
    cut in between repeats the end of the phase and loses no number.
    """
    facts = {key: value for key, value in numbers.items() if not isinstance(value, list)}
    session.write(phase, -1, event="finished", seconds=round(seconds, 2), **numbers)
    session.folder.mark_finished(phase, seconds=round(seconds, 2), **facts)
    model.save_pretrained(session.folder.path)
    session.folder.drop_checkpoints(phase)


def wanted_phases(settings: Settings, dataset: ImageDataset) -> dict[str, Phase]:
    """Leave out the phases that have nothing to do or nothing to learn from."""
    epochs = {name: getattr(settings, name).epochs for name in PHASES}
    wanted = {name: phase for name, phase in PHASES.items() if epochs[name] > 0}
    if settings.autoencoder.weights is not None:
        wanted["autoencoder"] = PHASES["autoencoder"]
    if settings.classifier.weights is not None:
        wanted["classifier"] = PHASES["classifier"]
    if "classifier" in wanted and choose_source(settings, dataset) is None:
        logger.warning(
            "data set '%s' has no labels and too few images for a neighbour graph: leaving out "
            "identity and the coefficient encoder (moves go half the way to the nearest image)",
            dataset.meta.name,
        )
        del wanted["classifier"]
    if "classifier" not in wanted:
        wanted.pop("coefficient_encoder", None)
    return {name: PHASES[name] for name in PHASES if name in wanted}


def _autoencoder_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    obtain_autoencoder(session, model.autoencoder, dataset)
    return dict(measure_reconstruction(model, dataset))


def _operator_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    pairs = make_pairs(session, model.autoencoder, dataset)
    latents = encode_split(
        model.autoencoder, dataset, ranks=session.ranks, progress=session.progress
    )
    numbers = train_operators(session, model, latents, pairs)
    some = model.encode(dataset.batch(dataset.splits["train"][:2000]))
    model.prior_scale = half_way_scale(model.operators.operators.detach(), some)
    if dataset.labels is not None:
        numbers["label_agreement"] = pairs.label_agreement(dataset.labels)
    return {**numbers, "latent_scale": model.latent_scale}


def _fine_tuning_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    fine_tune(session, model, dataset, make_pairs(session, model.autoencoder, dataset))
    some = model.encode(dataset.batch(dataset.splits["train"][:2000]))
    model.prior_scale = half_way_scale(model.operators.operators.detach(), some)
    numbers, _ = OperatorMonitor("fine_tuning").review(model.operators, some)
    return {**measure_reconstruction(model, dataset), **numbers}


PHASES: dict[str, Phase] = {
    "autoencoder": _autoencoder_phase,
    "operators": _operator_phase,
    "fine_tuning": _fine_tuning_phase,
    "classifier": train_classifier,
    "coefficient_encoder": train_coefficient_encoder,
}


def _first_or_saved_model(session: Session, dataset: ImageDataset) -> ManifoldAutoencoder:
    if (session.folder.path / "model.safetensors").exists():
        return ManifoldAutoencoder.from_pretrained(session.folder.path, device=session.device)
    settings = session.settings
    with session.seeded("weights", "autoencoder"):
        network = build_autoencoder(
            settings.autoencoder.network,
            image_size=dataset.image_size,
            channels=dataset.n_channels,
            latent_dimension=settings.autoencoder.latent_dimension,
            width=settings.autoencoder.width,
        )
    operators = TransportOperators(
        settings.operators.n_operators,
        settings.autoencoder.latent_dimension,
        n_blocks=settings.operators.n_blocks,
        initialisation=settings.operators.initialisation,
        variance=settings.operators.variance,
        generator=session.generator("weights", "operators"),
    )
    model = ManifoldAutoencoder(
        network,
        operators,
        sparsity_weight=settings.operators.sparsity_weight,
        class_names=dataset.meta.class_names,
    )
    prefer_channels_last(model)
    return model.to(session.device)


def load_run_data(
    settings: Settings, *, dataset: ImageDataset | None = None, progress: Progress = silent
) -> ImageDataset:
    """Load the images a run is trained on, as its settings describe them.

    Args:
        settings: of the run.
        dataset: takes the place of ``data.source``; size, channels and limit still apply.
        progress: announces long work.
    """
    wanted = settings.data
    images = load_dataset(
        wanted.source if dataset is None else dataset,
        image_size=wanted.image_size,
        channels=wanted.channels,
        progress=progress,
    )
    if wanted.image_size is None and not _SMALLEST <= images.image_size <= _LARGEST:
        size = _SMALLEST if images.image_size < _SMALLEST else _USUAL
        logger.warning(
            "images of %d pixels are resized to %d (data.image_size chooses another size)",
            images.image_size,
            size,
        )
        images = load_dataset(images, image_size=size)
    if wanted.limit is not None and wanted.limit < len(images.splits["train"]):
        fewer = {**images.splits, "train": np.sort(images.splits["train"])[: wanted.limit]}
        images = replace(images, splits=fewer)
    require_trainable(images)
    _require_enough_data(settings.autoencoder.latent_dimension, images)
    return images


def _require_enough_data(latent_dimension: int, images: ImageDataset) -> None:
    """Refuse more latent dimensions than there are pixels, or than images to fill them."""
    n_values, n_images = int(np.prod(images.image_shape)), len(images.splits["train"])
    if latent_dimension > min(n_values, n_images):
        scarce = f"{n_images} training images" if n_images < n_values else f"{n_values} pixels"
        raise DataError(
            f"autoencoder.latent_dimension = {latent_dimension} is larger than the data "
            f"({scarce}): such latents compress nothing; use at most {min(n_values, n_images)}"
        )


def _prepare(settings: Settings, folder: RunFolder, resume: bool) -> None:
    """Write what describes the run, or check that it is the run to continue."""
    if resume and folder.config_file.exists():
        _check_same_settings(settings, folder)
        return
    if folder.config_file.exists() or (folder.path / "model.safetensors").exists():
        raise ArtifactError(
            f"'{folder.path}' already holds a run; continue it with --resume or choose another "
            "--out"
        )
    write_atomically(folder.config_file, settings.to_toml().encode())
    write_json(folder.environment_file, describe_environment(settings.runtime.seed))


def _check_same_settings(wanted: Settings, folder: RunFolder) -> None:
    """Refuse to continue a run with settings that would have led elsewhere."""
    kept = load_settings(folder.config_file)
    for section, value in wanted:
        before = getattr(kept, section)
        if section == "runtime":
            value, before = value.seed, before.seed
        if section != "recipe" and value != before:
            raise ArtifactError(
                f"the run in '{folder.path}' has other settings in '{section}'; resume without "
                "changing them, or start anew with another --out"
            )
