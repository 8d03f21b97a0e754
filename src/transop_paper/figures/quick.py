"""A small run on the demo's digits, enough to exercise every figure in a few minutes."""

from pathlib import Path

from transop.artifacts import RunFolder
from transop.config import Settings, as_override, load_settings
from transop.progress import Progress, silent
from transop.training import train
from transop_paper.figures.companions import train_companion

_OVERRIDES = (
    "data.limit=2000",
    "autoencoder.width=16",
    "autoencoder.epochs=20",
    "autoencoder.batch_size=32",
    "operators.epochs=15",
    "fine_tuning.epochs=2",
    "classifier.epochs=6",
    "coefficient_encoder.epochs=8",
    "coefficient_encoder.distil_samples=4000",
)


def quick_settings() -> Settings:
    """Give the settings of the quick run: the demo's, smaller."""
    return load_settings("demo", _OVERRIDES).model_copy(update={"recipe": "quick"})


def train_quick_run(folder: Path, *, progress: Progress = silent) -> None:
    """Train the quick run in a folder, or finish the one that is there.

    Its autoencoder is the companion ``"ae"``, which the figures need anyway.
    """
    settings = quick_settings()
    train_companion(folder / "companions", settings, "ae", progress=progress)
    weights = str((folder / "companions" / "ae").resolve())
    wanted = settings.updated([as_override("autoencoder.weights", weights)])
    run = RunFolder(folder)
    train(wanted, run, resume=run.config_file.exists(), progress=progress)
