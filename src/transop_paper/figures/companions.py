"""The runs ours is compared with: trained beside it on first need, with the same settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from transop.artifacts import RunFolder, read_json
from transop.config import Settings, as_override, load_settings
from transop.data import ImageDataset
from transop.errors import ArtifactError, UserError
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop.run_data import load_run_data
from transop.training import Session, train, train_classifier
from transop_paper.baselines import BASELINES
from transop_paper.baselines.settings import BaselineSettings, baseline_settings
from transop_paper.baselines.training import train_baseline
from transop_paper.figures.material import Companion, Material, Scale

logger = logging.getLogger(__name__)

# What each companion changes in the settings of the run it accompanies, beside its method.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "ae": (),
    "cae": (),
    "beta-vae": (),
    "dense": (),
    "latent-pairs": (
        "pairs.strategy=latent",
        "classifier.epochs=0",
        "coefficient_encoder.epochs=0",
    ),
}
# These take over the autoencoder of "ae", so that a comparison is not about luck in that phase.
_SAME_AUTOENCODER = ("dense", "latent-pairs")


def load_companion(path: Path) -> Companion:
    """Load the model of a run, whichever method trained it."""
    method = read_json(path / "config.json").get("method", "mae")
    if method in BASELINES:
        return BASELINES[method].from_pretrained(path)
    return ManifoldAutoencoder.from_pretrained(path)


def companion_settings(settings: Settings, name: str, autoencoder: Path) -> Settings:
    """Derive the settings of a companion from those of the run it accompanies.

    Args:
        settings: of the run.
        name: a key of ``COMPANIONS``.
        autoencoder: the folder of the companion ``"ae"``.
    """
    if name not in COMPANIONS:
        raise UserError(f"companion '{name}' does not exist; there are {', '.join(COMPANIONS)}")
    changes = list(COMPANIONS[name])
    if name in _SAME_AUTOENCODER:
        changes.append(as_override("autoencoder.weights", str(autoencoder.resolve())))
    if name in BASELINES:
        return baseline_settings(settings, name, changes)
    return settings.updated(changes)


def find_companion(
    folder: Path, settings: Settings, name: str, *, progress: Progress = silent
) -> Companion:
    """Load a companion, training what is missing of it.

    Args:
        folder: where companions live, one folder each.
        settings: of the run they accompany.
        name: a key of ``COMPANIONS``.
        progress: announces long work.
    """
    run = RunFolder(folder / name)
    wanted = companion_settings(settings, name, folder / "ae")
    if run.config_file.exists():
        # Trained by hand, or an earlier attempt.
        wanted = load_settings(run.config_file, (), type(wanted))
    if name in _SAME_AUTOENCODER and not (run.path / "model.safetensors").exists():
        find_companion(folder, settings, "ae", progress=progress)
    logger.info("companion %s in %s", name, run.path)
    resume = run.config_file.exists()
    if isinstance(wanted, BaselineSettings):
        return train_baseline(wanted, run, resume=resume, progress=progress)
    return train(wanted, run, resume=resume, progress=progress)


def find_judge(
    folder: Path, settings: Settings, model: ManifoldAutoencoder, dataset: ImageDataset
) -> Callable[[Tensor], Tensor]:
    """Give a classifier of images: the model's own if it reads images, else a LeNet.

    It scores every method alike. Operators and fine-tuning never saw it.
    """
    if model.classifier is not None and model.classifier_domain == "image":
        return _quietly(model)
    if dataset.labels is None:
        raise UserError(
            f"data set '{dataset.meta.name}' has no labels, so no classifier can judge identity; "
            "choose a figure that needs none"
        )
    path = folder / "judge"
    if not (path / "model.safetensors").exists():
        image_settings = settings.updated(["classifier.domain=image", "classifier.network=auto"])
        session = Session.open(image_settings, RunFolder(path))
        path.mkdir(parents=True, exist_ok=True)
        train_classifier(session, model := _copy(model), dataset)
        model.save_pretrained(path)
    return _quietly(ManifoldAutoencoder.from_pretrained(path, device=model.device))


def open_material(
    run: Path,
    *,
    scale: Scale = "full",
    companions: Mapping[str, Path] | None = None,
    progress: Progress = silent,
) -> Material:
    """Collect what the figures of a trained run need.

    Args:
        run: a run folder of our method.
        scale: how much the figures compute.
        companions: runs to compare with that live elsewhere, by name.
        progress: announces long work.
    """
    folder = RunFolder(run)
    if not folder.config_file.exists():
        raise ArtifactError(f"'{run}' is not a run folder; train one with: transop train RECIPE")
    settings = load_settings(folder.config_file)
    given, beside = dict(companions or {}), run / "companions"
    unknown = set(given) - set(COMPANIONS)
    if unknown:
        raise UserError(f"companion '{unknown.pop()}' is unknown; use {', '.join(COMPANIONS)}")
    model = ManifoldAutoencoder.from_pretrained(run)
    dataset = load_run_data(settings, progress=progress)

    def companion(name: str) -> Companion:
        if name in given:
            return load_companion(given[name])
        return find_companion(beside, settings, name, progress=progress)

    return Material(
        folder,
        settings,
        model,
        dataset,
        companion,
        lambda: find_judge(beside, settings, model, dataset),
        scale,
        progress,
    )


def _quietly(model: ManifoldAutoencoder) -> Callable[[Tensor], Tensor]:
    def judge(images: Tensor) -> Tensor:
        with torch.no_grad():
            return model.classify(images)

    return judge


def _copy(model: ManifoldAutoencoder) -> ManifoldAutoencoder:
    """Rebuild a model without its classifier, so that another can be put in its place."""
    copy = ManifoldAutoencoder(
        model.autoencoder,
        model.operators,
        latent_scale=model.latent_scale,
        sparsity_weight=model.sparsity_weight,
        phases=model.phases,
        class_names=model.class_names,
    )
    return copy.to(model.device)
