"""Learned augmentations.

The outlined image is the input. To its right, random samples: above with the scales that the
coefficient encoder gives at this image, below with one fixed scale everywhere. Encoded scales vary
the image as far as its class allows; a fixed scale often turns it into something else.
"""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transop.evaluation import measure_kept_identity
from transop.operators import sample_moves
from transop.plotting import COLOURS, Block, image_blocks
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.paper_run import PaperRun, as_array

_SAMPLES = 8
_PER_ROW = 2


def compute(run: PaperRun) -> Numbers:
    """Sample augmentations of typical images both ways, and measure both on many images."""
    rows, model = run.examples(), run.model
    points = run.latents(rows)
    frames = {}
    for name, scales in _scales(run, points).items():
        wide = scales[:, None].expand(-1, _SAMPLES, -1).cpu()
        moved, _ = sample_moves(
            model.operators.operators.detach(),
            points[:, None].expand(-1, _SAMPLES, -1),
            wide,
            generator=run.generator("augmentations"),
        )
        frames[name] = as_array(model.decode(moved))
    arrays = {**frames, "inputs": as_array(run.dataset.batch(rows))}
    return Numbers(arrays, {"prior_scale": model.prior_scale, **_measure(run)})


def draw(numbers: Numbers) -> Figure:
    """Draw one block per image: the input outlined, encoded samples above fixed ones."""
    inputs, blocks = numbers["inputs"], []
    for image, encoded, fixed in zip(inputs, numbers["encoded"], numbers["fixed"], strict=True):
        upper = np.concatenate([image[None], encoded])
        lower = np.concatenate([np.ones_like(image)[None], fixed])
        blocks.append(
            Block(
                np.stack([upper, lower]),
                row_labels=("encoded", "fixed"),
                boxed=[(0, 0)],
                colour=COLOURS[2],
            )
        )
    page = [blocks[i : i + _PER_ROW] for i in range(0, len(blocks), _PER_ROW)]
    return image_blocks(page, cell_inches=0.36)


def _scales(run: PaperRun, points: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, "n m"]]:
    encoded = run.model.scales_at(points)
    return {"encoded": encoded, "fixed": torch.full_like(encoded, run.model.prior_scale)}


@torch.no_grad()
def _measure(run: PaperRun) -> dict[str, float]:
    """Say how often the classifier keeps its opinion, and how far samples move."""
    model = run.model
    latents = run.latents(run.held_out_rows[: run.sized(500, 10_000)])
    numbers = {}
    for name, scales in _scales(run, latents).items():
        result = measure_kept_identity(
            model.operators.operators.detach(),
            latents,
            scales,
            model.classify_latents,
            generator=run.generator("kept identity"),
        )
        numbers[f"kept_{name}"] = result.kept
        numbers[f"relative_move_{name}"] = result.relative_move
    return numbers


FIGURE = PaperFigure(
    __doc__, "Figure 6", compute, draw, needs=("operators", "classifier", "coefficient_encoder")
)
