"""Who is paired with whom.

The outlined images and their nearest neighbours by pixels, by latent points and by the features of
a pretrained network. Perceptual neighbours share what the image is about without being nearly the
same image, which is what operators can learn from.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import pad

from transop.data import ImageDataset
from transop.pairs import MISSING, PairSource
from transop.plotting import COLOURS, Block, image_blocks
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array

_STRATEGIES = ("pixel", "latent", "perceptual")
_ANCHORS, _NEIGHBOURS = 6, 5


def compute(run: PaperRun) -> Numbers:
    """Collect neighbours of the same images, and how often pairs share a label, by strategy."""
    dataset, sources = run.dataset, {name: run.pairs(name) for name in _STRATEGIES}
    generator, rows = run.generator("neighbours"), sources[_STRATEGIES[0]].rows
    anchors = torch.randperm(len(rows), generator=generator)[:_ANCHORS]
    arrays = {"anchors": as_array(dataset.batch(rows[anchors]))}
    for name, source in sources.items():
        arrays[name] = as_array(nearest_images(dataset, source, anchors))
    facts: dict[str, object] = {"positions": anchors.tolist()}
    if dataset.labels is not None:
        labels = dataset.labels
        facts["label_agreement"] = {k: s.label_agreement(labels) for k, s in sources.items()}
    return Numbers(arrays, facts)


def nearest_images(
    dataset: ImageDataset, source: PairSource, anchors: Int64[Tensor, " a"]
) -> Float[Tensor, "a k c h w"]:
    """Look up the images of the nearest partners; white where there are fewer."""
    assert source.neighbours is not None
    known = source.neighbours[anchors, :_NEIGHBOURS]
    found = pad(known, (0, _NEIGHBOURS - known.shape[1]), value=MISSING)
    flat = found.flatten()
    images = dataset.batch(source.rows[flat.clamp_min(0)])
    images[flat == MISSING] = 1.0
    return images.view(*found.shape, *images.shape[1:])


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


FIGURE = PaperFigure(__doc__, "Figure 11", compute, draw, needs=())
