"""One readable loop per phase, one checkpoint mechanism, one set of diagnostics."""

from transop.training.fit import fit, train
from transop.training.loop import TrainingFailure
from transop.training.run_data import DataRecord, load_run_data, open_run_data

__all__ = ["DataRecord", "TrainingFailure", "fit", "load_run_data", "open_run_data", "train"]
