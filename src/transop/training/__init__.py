"""One readable loop per phase, one checkpoint mechanism, one set of diagnostics."""

from transop.training.fit import fit, load_run_data, train
from transop.training.loop import TrainingFailure

__all__ = ["TrainingFailure", "fit", "load_run_data", "train"]
