"""The runs ours is compared with: trained beside it on first need, with the same settings."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transop.artifacts import RunFolder, read_json
from transop.config import Settings, as_override, load_settings
from transop.data import DataRecord
from transop.errors import UserError
from transop.model import ManifoldAutoencoder
from transop.progress import Progress, silent
from transop.run import Run
from transop.training import Session, train, train_classifier
from transop_paper.baselines import BASELINES, Baseline
from transop_paper.baselines.settings import BaselineSettings, baseline_settings
from transop_paper.baselines.training import train_baseline

Companion = ManifoldAutoencoder | Baseline

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


def load_companion(path: Path, data: DataRecord | None = None) -> Companion:
    """Load the model of a run, whichever method trained it.

    It must have been trained on ``data``, if that is given.
    """
    record = DataRecord.read(RunFolder(path))
    if data is not None and record is not None and data.content_hash != record.content_hash:
        raise UserError(
            f"the companion in '{path}' was trained on {record.summary()}, but the run on "
            f"{data.summary()}; compare runs on the same images"
        )
    method = read_json(path / "config.json").get("method", "mae")
    if method in BASELINES:
        return BASELINES[method].from_pretrained(path)
    return ManifoldAutoencoder.from_pretrained(path)


def companion_settings(settings: Settings, name: str, autoencoder: Path) -> Settings:
    """Derive the settings of a companion from those of the run it accompanies."""
    if name not in COMPANIONS:
        raise UserError(f"companion '{name}' does not exist; there are {', '.join(COMPANIONS)}")
    changes = list(COMPANIONS[name])
    if name in _SAME_AUTOENCODER:
        changes.append(as_override("autoencoder.weights", str(autoencoder.resolve())))
    if name in BASELINES:
        return baseline_settings(settings, name, changes)
    return settings.updated(changes)


def train_companion(
    folder: Path,
    settings: Settings,
    name: str,
    *,
    data: DataRecord | None = None,
    dataset: Any = None,
    progress: Progress = silent,
) -> Companion:
    """Load a companion, training what is missing of it.

    ``data`` is what the run was trained on, if it is there already; ``dataset`` the images, if
    they are not to be loaded by the settings.
    """
    run = RunFolder(folder / name)
    wanted = companion_settings(settings, name, folder / "ae")
    if run.config_file.exists():
        # Trained by hand, or an earlier attempt.
        wanted = load_settings(run.config_file, (), type(wanted))
    if name in _SAME_AUTOENCODER and not run.model_file.exists():
        train_companion(folder, settings, "ae", data=data, dataset=dataset, progress=progress)
    logger.info("companion %s in %s", name, run.path)
    resume = run.config_file.exists()
    if isinstance(wanted, BaselineSettings):
        train_baseline(wanted, run, dataset=dataset, resume=resume, progress=progress)
    else:
        train(wanted, run, dataset=dataset, resume=resume, progress=progress)
    return load_companion(run.path, data)


def find_image_classifier(run: Run) -> Callable[[Tensor], Tensor]:
    """Give a classifier of images: the model's own if it reads images, else a LeNet.

    It scores every method alike. Operators and fine-tuning never saw it.
    """
    model, dataset = run.model, run.dataset
    if model.classifier is not None and model.classifier_domain == "image":
        return _quietly(model)
    if dataset.labels is None:
        raise UserError(
            f"data set '{dataset.meta.name}' has no labels, so no classifier can be trained; "
            "choose a figure that needs none"
        )
    path = run.path / "companions" / "judge"
    if not (path / "model.safetensors").exists():
        image_settings = run.settings.updated(
            ["classifier.domain=image", "classifier.network=auto"]
        )
        session = Session.open(image_settings, RunFolder(path))
        path.mkdir(parents=True, exist_ok=True)
        bare = ManifoldAutoencoder(
            model.autoencoder,
            model.operators,
            latent_scale=model.latent_scale,
            sparsity_weight=model.sparsity_weight,
            phases=model.phases,
            class_names=model.class_names,
        ).to(model.device)
        train_classifier(session, bare, dataset)
        bare.save_pretrained(path)
    return _quietly(ManifoldAutoencoder.from_pretrained(path, device=model.device))


def _quietly(model: ManifoldAutoencoder) -> Callable[[Tensor], Tensor]:
    return torch.no_grad()(model.classify)
