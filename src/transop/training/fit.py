"""Run the phases of a recipe one after another, skipping those that are done."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from transop.artifacts import RunFolder, write_atomically
from transop.config import Settings, as_override, load_settings
from transop.data import ImageDataset, load_dataset, load_run_data, spread_out
from transop.errors import ArtifactError, SettingsError, show
from transop.evaluation import half_way_scale, held_out_rows
from transop.identity import choose_source
from transop.inputs import check_callable, check_flag, check_kind, check_path, check_seed
from transop.model import ManifoldAutoencoder
from transop.networks import ModuleAutoencoder, build_autoencoder, prefer_channels_last
from transop.operators import TransportOperators
from transop.progress import Progress, silent
from transop.training.autoencoder import measure_reconstruction, obtain_autoencoder
from transop.training.classifier import train_classifier
from transop.training.coefficient_encoder import train_coefficient_encoder
from transop.training.diagnostics import OperatorMonitor
from transop.training.fine_tuning import fine_tune
from transop.training.latents import check_backbone, encode_in, make_pairs
from transop.training.operators import choose_weights, recall_weights, train_operators
from transop.training.own_modules import build_own_model, own_modules
from transop.training.phases import Phase, TrainingPlan, refuse_run, train_phases
from transop.training.plan import FitPlan, make_plan, most_epochs
from transop.training.session import Deadline, Session

logger = logging.getLogger(__name__)


def fit(
    source: Any,
    recipe: str | Path | None = None,
    *,
    minutes: float | None = None,
    labels: Any = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    device: str | torch.device | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> ManifoldAutoencoder:
    """Train a manifold autoencoder on images and return it.

    Args:
        source: a data set's name, a folder of images, an array, a tensor or an `ImageDataset`.
        recipe: a shipped recipe's name or a TOML file; ``"demo"`` if neither it nor ``minutes``
            is given.
        minutes: choose every setting for these images and this much time instead.
        labels: one class number for each image, if the source brings none.
        settings: changes to the recipe, such as ``{"autoencoder.epochs": 20}``.
        out: the run folder; without one nothing but the returned model is kept.
        overrides: the same as text, such as ``"autoencoder.epochs=2"``.
        seed: replaces ``runtime.seed``.
        device: replaces ``runtime.device``.
        resume: continue the run in ``out``; with ``minutes``, as it was planned, without a clock.
        progress: announces long work.
    """
    resume = check_flag("resume", resume)
    place = None if out is None else check_path("out", out)
    if resume and (place is None or not place.exists()):
        raise ArtifactError(f"resume=True, but there is no run in out = {out!r} to continue")
    if isinstance(device, torch.device):
        device = str(device)
    check_kind("device", device, str, optional=True)
    check_callable("progress", progress, n_arguments=3, optional=True)
    if minutes is not None:
        if recipe is not None or settings or overrides:
            raise SettingsError(
                f"minutes = {show(minutes)} chooses every setting; leave out recipe, settings and "
                "overrides, or leave out minutes"
            )
        images = source if labels is None else load_dataset(source, labels=labels)
        number = None if seed is None else check_seed("seed", seed)
        if resume:
            assert place is not None
            return _go_on(images, RunFolder(place), number, device, progress)
        return _fit_in_time(
            images, minutes, place, number or 0, device or "auto", progress or silent
        )
    if not isinstance(overrides, list | tuple):
        raise SettingsError(
            f"overrides = {show(overrides)}; pass a list such as ['autoencoder.epochs=2']"
        )
    chosen = load_settings("demo" if recipe is None else recipe, overrides, changes=settings)
    named = isinstance(source, str | Path) and labels is None
    extra = [as_override("data.source", str(source))] if named else []
    if device is not None:
        extra.append(as_override("runtime.device", device))
    if seed is not None:
        extra.append(f"runtime.seed={check_seed('seed', seed)}")
    chosen = chosen.updated(extra)
    dataset = None if named else load_run_data(chosen, dataset=source, labels=labels)
    with TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) if place is None else place)
        return train(chosen, folder, dataset=dataset, resume=resume, progress=progress)


def train(
    settings: Settings,
    folder: RunFolder,
    *,
    dataset: Any = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> ManifoldAutoencoder:
    """Run the phases a run folder is missing and return the model.

    Args:
        settings: the resolved settings.
        folder: where everything is written; it must be new, empty or, with ``resume``, a run
            with the same settings.
        dataset: the images, as anything ``load_dataset`` reads, if they are not to be loaded by
            ``settings.data``.
        resume: continue instead of starting.
        progress: announces long work.
    """
    if settings.operators.epochs > 0 or settings.fine_tuning.epochs > 0:
        check_backbone(settings.pairs)
    plan = TrainingPlan(load_model, build_model, wanted_phases)
    return train_phases(settings, folder, plan, dataset=dataset, resume=resume, progress=progress)


def _fit_in_time(
    source: Any, minutes: float, out: Path | None, seed: int, device: str, progress: Progress
) -> ManifoldAutoencoder:
    if out is not None:
        refuse_run(RunFolder(out))  # before time is spent on a plan
    start, named = time.monotonic(), isinstance(source, str | Path)
    given = source if named else load_dataset(source, progress=progress)
    plan, images = make_plan(given, minutes, seed=seed, device=device, progress=progress)
    for reason in plan.reasons:
        logger.info("%s", reason)
    with TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) if out is None else out)
        return train_in_time(plan, images, folder, start, named=named, progress=progress)


def _go_on(
    source: Any, folder: RunFolder, seed: int | None, device: str | None, progress: Progress | None
) -> ManifoldAutoencoder:
    """Continue a run with a plan by the plan's epochs; ``source`` must hold the same images."""
    settings = load_settings(folder.config_file)
    if settings.recipe != "fit":
        raise SettingsError(
            f"the run in '{folder.path}' was not planned by minutes but is of recipe "
            f"'{settings.recipe}'; continue it with that recipe"
        )
    if seed not in (None, settings.runtime.seed):
        raise SettingsError(
            f"seed = {show(seed)}, but the run in '{folder.path}' was started with "
            f"{settings.runtime.seed}; leave it out, or choose another out"
        )
    if device is not None:
        settings = settings.updated([as_override("runtime.device", device)])
    return train(settings, folder, dataset=source, resume=True, progress=progress)


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
    """Follow a plan; every phase ends when its share of the time that is left is over.

    Args:
        plan: what to do.
        images: as the plan uses them.
        folder: the run's, new or empty.
        start: when the minutes began, by ``time.monotonic``.
        named: whether the settings name a folder or data set that can be opened again.
        progress: announces long work.
        announce: is told when a phase begins how much time is left.
    """
    end, parts = start + 60 * plan.minutes, list(plan.seconds)

    def deadline(phase: str) -> Deadline | None:
        now = time.monotonic()
        left = max(1.0, end - now)
        time_left = f"{left:.0f} s" if left < 90 else f"{left / 60:.1f} min"
        announce(f"{phase.replace('_', ' ')}: about {time_left} left for everything")
        if phase not in plan.seconds:
            return None
        own = plan.seconds[phase]
        later = sum(plan.seconds[part] for part in parts[parts.index(phase) + 1 :])
        # Time that nobody planned for is this phase's; where there is too little, all get less.
        when = now + max(left - later, left * own / (own + later))
        return Deadline(when, most_epochs(plan.settings, phase, len(images.splits["train"])))

    phases = TrainingPlan(load_model, build_model, wanted_phases, deadline)
    given = None if named else images
    model = train_phases(plan.settings, folder, phases, dataset=given, progress=progress)
    _store_epochs(folder)
    return model


def _store_epochs(folder: RunFolder) -> None:
    """Let the settings of a run say how many epochs the clock allowed."""
    settings, lines = load_settings(folder.config_file), folder.read_metrics()
    for phase in PHASES:
        done = [line["epoch"] for line in lines if line.get("phase") == phase and "epoch" in line]
        if done:
            section = getattr(settings, phase).model_copy(update={"epochs": round(max(done), 2)})
            settings = settings.model_copy(update={phase: section})
    write_atomically(folder.config_file, settings.to_toml().encode())


def wanted_phases(settings: Settings, dataset: ImageDataset) -> dict[str, Phase]:
    """Leave out the phases that have nothing to do or nothing to learn from."""
    wanted = {name for name in PHASES if getattr(settings, name).epochs > 0}
    if settings.autoencoder.weights is not None or settings.autoencoder.factory is not None:
        wanted.add("autoencoder")
    if settings.classifier.weights is not None:
        wanted.add("classifier")
    if "classifier" in wanted and choose_source(settings, dataset) is None:
        logger.warning(
            "data set '%s' has no labels that differ and too few images for a neighbour graph: no "
            "identity and no coefficient encoder (moves go half the way to the nearest image)",
            dataset.meta.name,
        )
        wanted.remove("classifier")
    if "classifier" not in wanted:
        wanted.discard("coefficient_encoder")
    return {name: phase for name, phase in PHASES.items() if name in wanted}


def _autoencoder_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    network = model.autoencoder
    if not isinstance(network, ModuleAutoencoder):
        obtain_autoencoder(session, network, dataset)
        return dict(measure_reconstruction(model, dataset))
    # Modules of the user's own are taken as they are.
    numbers: dict[str, Any] = {"latent_dimension": network.shape.latent_dimension}
    if network.principal is not None:
        numbers["explained_variance"] = network.principal.explained
    if network.has_decoder:
        images = dataset.batch(held_out_rows(dataset), device=model.device)
        numbers["test_mse"] = float((model.reconstruct(images) - images).square().mean())
    return numbers


def _operator_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    pairs = make_pairs(session, model.autoencoder, dataset)
    latents = encode_in(session, model.autoencoder, dataset)
    chosen = choose_weights(session, latents, pairs)
    numbers = chosen | train_operators(session, model, latents, pairs)
    _set_prior_scale(model, dataset)
    if dataset.labels is not None:
        numbers["label_agreement"] = pairs.label_agreement(dataset.labels)
    return {**numbers, "latent_scale": model.latent_scale}


def _fine_tuning_phase(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    if not model.autoencoder.has_decoder or model.carries_rest:
        logger.warning(
            "fine-tuning is left out: it needs a decoder, and operators that act on whole latents"
        )
        return {}
    recall_weights(session)
    fine_tune(session, model, dataset, make_pairs(session, model.autoencoder, dataset))
    some = _set_prior_scale(model, dataset)
    numbers, _ = OperatorMonitor("fine_tuning").review(model.operators, some)
    return {**measure_reconstruction(model, dataset), **numbers}


def _set_prior_scale(model: ManifoldAutoencoder, dataset: ImageDataset) -> Tensor:
    """Let moves go half the way to the nearest image; give the latents this was found on."""
    some = model.encode(dataset.batch(spread_out(dataset.splits["train"], 2000)))
    model.prior_scale = half_way_scale(model.operators.operators.detach(), some)
    return some


PHASES: dict[str, Phase] = {
    "autoencoder": _autoencoder_phase,
    "operators": _operator_phase,
    "fine_tuning": _fine_tuning_phase,
    "classifier": train_classifier,
    "coefficient_encoder": train_coefficient_encoder,
}


def load_model(
    settings: Settings, folder: Path, device: torch.device | None
) -> ManifoldAutoencoder:
    """Load the model of a run that is being trained, with the modules its settings name."""
    own = settings.autoencoder
    encoder, decoder = (None, None) if own.factory is None else own_modules(own)
    return ManifoldAutoencoder.from_pretrained(
        folder, device=device, encoder=encoder, decoder=decoder
    )


def build_model(session: Session, dataset: ImageDataset) -> ManifoldAutoencoder:
    """Build the untrained model that the settings describe."""
    settings = session.settings
    if settings.autoencoder.factory is not None:
        model = build_own_model(session, dataset)
    else:
        with session.seeded("weights", "autoencoder"):
            network = build_autoencoder(
                settings.autoencoder.network,
                image_size=dataset.image_size,
                channels=dataset.n_channels,
                latent_dimension=settings.autoencoder.latent_dimension,
                width=settings.autoencoder.width,
            )
        prefer_channels_last(network)
        model = ManifoldAutoencoder(network, TransportOperators(1, network.shape.latent_dimension))
    model.operators = TransportOperators(
        settings.operators.n_operators,
        model.autoencoder.shape.latent_dimension,
        n_blocks=settings.operators.n_blocks,
        generator=session.generator("weights", "operators"),
    )
    model.sparsity_weight = settings.objective.sparsity_weight
    model.class_names = dataset.meta.class_names
    return model
