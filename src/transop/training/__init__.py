"""One readable loop per phase, one checkpoint mechanism, one set of diagnostics."""

from transop.training.fit import fit, train
from transop.training.loop import TrainingFailure

__all__ = ["TrainingFailure", "fit", "train"]
