"""Paints faces from continuous factors; knows nothing of files or data sets."""

from transop_paper.faces.drawing.factors import (
    FACTOR_NAMES,
    FACTORS,
    Factor,
    neutral_face,
    sample_factors,
)
from transop_paper.faces.drawing.portrait import draw_faces

__all__ = ["FACTORS", "FACTOR_NAMES", "Factor", "draw_faces", "neutral_face", "sample_factors"]
