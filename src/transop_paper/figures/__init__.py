"""One file per figure or table of the paper: compute, numbers on disk, draw."""

from transop_paper.figures import (
    all_operators,
    attributes,
    augmentations,
    closed_paths,
    embedding,
    extrapolation,
    factors,
    inference_time,
    magnitudes,
    operator_difference,
    operator_paths,
    pair_eigenvalues,
    pair_neighbours,
    pair_paths,
    path_strips,
    scale_map,
    sparse_dense,
    table1,
    training_curves,
)
from transop_paper.figures.figure import PaperFigure

# In the order of the paper; the report shows them in this order too.
FIGURES: dict[str, PaperFigure] = {
    "operator-paths": operator_paths.FIGURE,
    "attributes": attributes.FIGURE,
    "path-strips": path_strips.FIGURE,
    "extrapolation": extrapolation.FIGURE,
    "embedding": embedding.FIGURE,
    "scale-map": scale_map.FIGURE,
    "augmentations": augmentations.FIGURE,
    "table1": table1.FIGURE,
    "inference-time": inference_time.FIGURE,
    "sparse-dense": sparse_dense.FIGURE,
    "pair-neighbours": pair_neighbours.FIGURE,
    "pair-eigenvalues": pair_eigenvalues.FIGURE,
    "pair-paths": pair_paths.FIGURE,
    "magnitudes": magnitudes.FIGURE,
    "all-operators": all_operators.FIGURE,
    "closed-paths": closed_paths.FIGURE,
    "factors": factors.FIGURE,
    "training-curves": training_curves.FIGURE,
    "operator-difference": operator_difference.FIGURE,
}
