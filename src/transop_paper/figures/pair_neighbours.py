"""Neighbours: whom each strategy pairs an image with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from transop.pairs import PairSource
from transop.plotting import COLOURS, Block, image_blocks
from transop.training import pairs_by_settings
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.neighbour_examples import neighbour_examples
from transop_paper.figures.paper_run import PaperRun, as_array

_STRATEGIES = ("pixel", "latent", "perceptual")
_ANCHORS, _NEIGHBOURS = 6, 5

PairMaker = Callable[[str], PairSource]


def compute(run: PaperRun) -> Numbers:
    """Look up the nearest neighbours of the same images under three strategies."""
    return neighbours_under(run, lambda strategy: run_pairs(run, strategy))


def run_pairs(run: PaperRun, strategy: str) -> PairSource:
    """Build the pairs of the run's training images under another strategy."""
    # Latents before fine-tuning are what a run with latent pairs would have seen.
    network = run.companion("ae").network
    settings = run.settings.pairs.model_copy(update={"strategy": strategy})
    return pairs_by_settings(settings, network, run.dataset, progress=run.progress)


def neighbours_under(run: PaperRun, pairs: PairMaker) -> Numbers:
    """Collect neighbours, and how often pairs share a label, for every strategy."""
    dataset, sources = run.dataset, {name: pairs(name) for name in _STRATEGIES}
    found = neighbour_examples(
        dataset,
        sources,
        n_anchors=_ANCHORS,
        n_neighbours=_NEIGHBOURS,
        generator=run.generator("neighbours"),
    )
    arrays = {"anchors": as_array(found.anchor_images)}
    arrays |= {name: as_array(images) for name, images in found.neighbour_images.items()}
    facts: dict[str, object] = {"positions": found.anchors.tolist()}
    if dataset.labels is not None:
        labels = dataset.labels
        facts["label_agreement"] = {k: s.label_agreement(labels) for k, s in sources.items()}
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw the image outlined and its neighbours to the right, one block per strategy."""
    agreement = numbers.facts.get("label_agreement", {})
    blocks = []
    for name in _STRATEGIES:
        images = np.concatenate([numbers["anchors"][:, None], numbers[name]], axis=1)
        share = f" ({agreement[name]:.0%} same class)" if name in agreement else ""
        boxed = [(row, 0) for row in range(len(images))]
        blocks.append(Block(images, f"{name}{share}", boxed=boxed, colour=COLOURS[2]))
    return image_blocks([blocks], cell_inches=0.42)


FIGURE = PaperFigure(
    title="Who is paired with whom",
    caption=(
        "The outlined images and their nearest neighbours by pixels, by latent points and by the "
        "features of a pretrained network. Perceptual neighbours share what the image is about "
        "without being nearly the same image, which is what operators can learn from."
    ),
    paper="Figure 11",
    compute=compute,
    draw=draw,
    needs=(),
)
