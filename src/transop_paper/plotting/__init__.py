"""Pictures that only the paper has: arrays in, ``Figure`` out."""

from transop_paper.plotting.attributes import AttributePath, attribute_paths
from transop_paper.plotting.bars import magnitude_bars, time_bars
from transop_paper.plotting.closed import closed_path
from transop_paper.plotting.embedding import embedding
from transop_paper.plotting.stability import curve_matrix, eigenvalue_figure
from transop_paper.plotting.strips import probability_strips

__all__ = [
    "AttributePath",
    "attribute_paths",
    "closed_path",
    "curve_matrix",
    "eigenvalue_figure",
    "embedding",
    "magnitude_bars",
    "probability_strips",
    "time_bars",
]
