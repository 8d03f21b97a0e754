"""Measure what a model does to images: reconstruction, identity along paths, kept labels."""

from transop.evaluation.extrapolation import (
    ExtrapolationResult,
    lead_over,
    measure_extrapolation,
    same_class_pairs,
    stopping_time,
)
from transop.evaluation.identity import KeptIdentity, measure_kept_identity
from transop.evaluation.invariance import (
    Invariance,
    Strip,
    Tolerance,
    draw_strip,
    measure_invariance,
)
from transop.evaluation.protocol import PathModel
from transop.evaluation.reconstruction import classifier_accuracy, reconstruction_error

__all__ = [
    "ExtrapolationResult",
    "Invariance",
    "KeptIdentity",
    "PathModel",
    "Strip",
    "Tolerance",
    "classifier_accuracy",
    "draw_strip",
    "lead_over",
    "measure_extrapolation",
    "measure_invariance",
    "measure_kept_identity",
    "reconstruction_error",
    "same_class_pairs",
    "stopping_time",
]
