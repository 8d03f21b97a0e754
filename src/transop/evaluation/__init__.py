"""Measure what a model does to images: reconstruction, identity along paths, kept labels."""

from transop.evaluation.extrapolation import (
    ExtrapolationResult,
    lead_over,
    measure_extrapolation,
    same_class_pairs,
    stopping_time,
)
from transop.evaluation.invariance import (
    Invariance,
    Strip,
    Tolerance,
    draw_strip,
    measure_invariance,
)
from transop.evaluation.kept import (
    FIXED,
    LENGTHS,
    KeptCurve,
    KeptIdentity,
    factor_for_length,
    far_length,
    far_scale,
    half_way_scale,
    measure_kept_curves,
    measure_kept_identity,
    spread_covered,
)
from transop.evaluation.reconstruction import (
    PathModel,
    classifier_accuracy,
    held_out_rows,
    reconstruction_error,
)

__all__ = [
    "FIXED",
    "LENGTHS",
    "ExtrapolationResult",
    "Invariance",
    "KeptCurve",
    "KeptIdentity",
    "PathModel",
    "Strip",
    "Tolerance",
    "classifier_accuracy",
    "draw_strip",
    "factor_for_length",
    "far_length",
    "far_scale",
    "half_way_scale",
    "held_out_rows",
    "lead_over",
    "measure_extrapolation",
    "measure_invariance",
    "measure_kept_curves",
    "measure_kept_identity",
    "reconstruction_error",
    "same_class_pairs",
    "spread_covered",
    "stopping_time",
]
