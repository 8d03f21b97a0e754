"""One readable loop per phase, one checkpoint mechanism, one set of diagnostics.

`fit` and `train` train our model. Other models are trained by `train_phases`; the remaining names
are the building blocks for phases of their own.
"""

from transop.training.autoencoder import (
    load_images,
    measure_reconstruction,
    obtain_autoencoder,
    train_autoencoder,
)
from transop.training.classifier import call_factory, train_classifier
from transop.training.coefficient_encoder import train_coefficient_encoder
from transop.training.fit import fit, train, train_in_time
from transop.training.latents import encode_split, find_latent_scale, make_pairs, pairs_by_settings
from transop.training.loop import Loop, TrainingFailure
from transop.training.operators import DictionaryLearner
from transop.training.own_modules import load_weights
from transop.training.phases import Phase, TrainingPlan, train_phases
from transop.training.plan import FitPlan, make_plan
from transop.training.session import Session, computes_in_half
from transop.training.steps import steps_in

__all__ = [
    "DictionaryLearner",
    "FitPlan",
    "Loop",
    "Phase",
    "Session",
    "TrainingFailure",
    "TrainingPlan",
    "call_factory",
    "computes_in_half",
    "encode_split",
    "find_latent_scale",
    "fit",
    "load_images",
    "load_weights",
    "make_pairs",
    "make_plan",
    "measure_reconstruction",
    "obtain_autoencoder",
    "pairs_by_settings",
    "steps_in",
    "train",
    "train_autoencoder",
    "train_classifier",
    "train_coefficient_encoder",
    "train_in_time",
    "train_phases",
]
