"""The methods of the comparisons: their names and colours, the same in every figure."""

from __future__ import annotations

from transop.plotting import COLOURS, MUTED
from transop_paper.figures.paper_run import PaperRun

OUR_METHOD = "mae"
METHOD_NAMES = {
    OUR_METHOD: "transport operators",
    "ae": "autoencoder",
    "cae": "contractive AE",
    "beta-vae": "beta-VAE",
}
METHOD_COLOURS = {
    OUR_METHOD: COLOURS[0],
    "ae": MUTED,
    "cae": COLOURS[1],
    "beta-vae": COLOURS[2],
}


def model_of(run: PaperRun, method: str) -> object:
    """Give the model of a method: ours, or the companion of that name."""
    return run.model if method == OUR_METHOD else run.companion(method)
