"""Operator paths.

Each block applies one learned direction to one typical test image per class. The outlined middle
column is the reconstruction; columns to the right move forward, to the left backward. Top: the
largest transport operators. Middle: tangents of the contractive autoencoder, which are straight and
differ from image to image. Bottom: the most used latents of the beta-VAE.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transop.operators import transport_path
from transop.plotting import Block, image_blocks
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import METHOD_COLOURS, METHOD_NAMES, PaperRun, as_array

_SHOWN = 4  # operators, and directions of each baseline
_REACH = 0.5  # how far a strip goes, as a share of the latent point's length
_SMALL_IMAGE = 32  # pixels
_DEVIATIONS = 2.0  # how far a baseline's strip goes, in standard deviations


def natural_unit(operator: Float[Tensor, "d d"], points: Float[Tensor, "n d"]) -> float:
    """Give the coefficient whose first-order move is, on average, as long as the point itself.

    Operators differ in size, so equal coefficients would show some standing still and others
    running away.
    """
    moves = (points @ operator.mT).norm(dim=1)
    return float((points.norm(dim=1) / moves).mean())


def follow(
    operator: Float[Tensor, "d d"], points: Float[Tensor, "n d"], coefficients: Float[Tensor, " t"]
) -> Float[Tensor, "n t d"]:
    """Carry points along one operator alone, by every coefficient."""
    one = points.new_ones(len(points), 1)
    return transport_path(operator[None], one, points, coefficients.to(points))


def operator_strips(
    run: PaperRun, chosen: list[int], rows: np.ndarray, amounts: Float[Tensor, " t"]
) -> tuple[Float[np.ndarray, "k n t c h w"], Float[np.ndarray, " k"]]:
    """Decode images moved by single operators, so many natural units far; give the units too."""
    points, operators = run.latents(rows), run.model.operators.operators.detach()[chosen]
    units = [natural_unit(operator, points) for operator in operators]
    strips = [
        as_array(run.model.decode(follow(operator, points, unit * amounts)))
        for operator, unit in zip(operators, units, strict=True)
    ]
    return np.stack(strips), np.array(units)


def strip_blocks(strips: np.ndarray, titles: Sequence[str], colour: str) -> list[Block]:
    """Draw one block per strip of images, the middle column outlined."""
    boxed = [(row, strips.shape[2] // 2) for row in range(strips.shape[1])]
    return [
        Block(frames, title=title, boxed=boxed, colour=colour)
        for frames, title in zip(strips, titles, strict=False)
    ]


def roomy(inches: float, images: Float[np.ndarray, "... height width"]) -> float:
    """Enlarge a cell that suits small grey images where images have more to show."""
    return inches if images.shape[-1] <= _SMALL_IMAGE else 1.5 * inches


def compute(run: PaperRun) -> Numbers:
    """Move one typical image per class by the largest operators and along baseline directions."""
    rows, chosen = run.examples(), run.living_operators[:_SHOWN]
    amounts = torch.linspace(-1, 1, 7)
    ours, units = operator_strips(run, chosen, rows, _REACH * amounts)
    arrays = {"mae": ours, "units": units, "amounts": as_array(amounts)}
    images = run.dataset.batch(rows)
    for method in ("cae", "beta-vae"):
        model = run.companion(method)
        shown = range(min(_SHOWN, model.latent_dimension))
        paths = [model.traversal(images, k, _DEVIATIONS * amounts) for k in shown]
        frames = [as_array(model.decode(p.flatten(0, 1))) for p in paths]
        arrays[method] = np.stack(frames).reshape(len(frames), *ours.shape[1:])
    labels = [] if run.dataset.labels is None else run.dataset.labels[rows].tolist()
    return Numbers(arrays, {"operators": chosen, "labels": labels, "rows": rows.tolist()})


def draw(numbers: Numbers) -> Figure:
    """Draw a row of blocks per method; the middle column is the reconstruction."""
    names = {
        "mae": [f"operator {m}" for m in numbers.facts["operators"]],
        "cae": [f"tangent {k + 1}" for k in range(_SHOWN)],
        "beta-vae": [f"latent {k + 1}" for k in range(_SHOWN)],
    }
    page = [strip_blocks(numbers[m], words, METHOD_COLOURS[m]) for m, words in names.items()]
    headings = [METHOD_NAMES[m] for m in names]
    return image_blocks(page, headings=headings, cell_inches=roomy(0.27, numbers["mae"]))


FIGURE = PaperFigure(__doc__, "Figure 1", compute, draw)
