"""Measure what a model does to images: reconstruction, identity along paths, kept labels."""

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
    same_class_pairs,
)

__all__ = [
    "FIXED",
    "LENGTHS",
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
    "measure_invariance",
    "measure_kept_curves",
    "measure_kept_identity",
    "reconstruction_error",
    "same_class_pairs",
    "spread_covered",
]
