"""Sparse against dense coefficients.

Above: our model, whose paths use few operators. Below: the same model with coefficients from a
network, which uses all operators for every pair. Left: two neighbours as reconstructed, the end of
the path between them, and the path taken twice as far. Right: single operators, moved by up to five
times their average coefficient; with sparse coefficients each should mean something by itself. The
growth rate is that of a typical move by one operator.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transop.model import ManifoldAutoencoder
from transop.operators import eigenvalues, transport
from transop.plotting import COLOURS, Block, image_blocks
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.operator_paths import follow
from transop_paper.figures.paper_run import PaperRun, as_array

_SHOWN_PAIRS, _SHOWN_OPERATORS, _STEPS = 4, 4, 9
_REACH = 5.0  # traversals go so many times the average coefficient to either side


def compute(run: PaperRun) -> Numbers:
    """Measure both models on the same pairs of training images."""
    pairs, dense = run.pairs(run.settings.pairs.strategy), run.companion("dense")
    starts, ends = pairs.sample(run.generator("sparse against dense"), run.sized(500, 5000))
    rows = run.dataset.splits["train"]
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {"n_pairs": len(starts)}
    models: dict[str, Any] = {"sparse": run.model, "dense": dense}
    times = torch.linspace(-_REACH, _REACH, _STEPS)
    for name, model in models.items():
        z0, z1 = (_encode(model, run, rows[part.numpy()]) for part in (starts, ends))
        with torch.no_grad():
            sparse = isinstance(model, ManifoldAutoencoder)
            coefficients = (
                model.infer_latents(z0, z1).coefficients if sparse else model.coefficients(z0, z1)
            )
        operators, average = model.operators.operators.detach(), coefficients.abs().mean(0)
        arrays[f"{name}.columns"] = _columns(run, model, rows, starts, ends, coefficients)
        # The operators that move most: size times average coefficient.
        influence = operators.flatten(1).norm(dim=1) * average
        chosen = influence.argsort(descending=True)[:_SHOWN_OPERATORS].tolist()
        facts[name] = {**_measure(operators, coefficients, z0, z1), "operators": chosen}
        paths = [follow(operators[m], z0[:1], float(average[m]) * times) for m in chosen]
        frames = as_array(model.decode(torch.cat(paths).flatten(0, 1)))
        arrays[f"{name}.traversals"] = frames.reshape(len(chosen), _STEPS, *frames.shape[1:])
    return Numbers(arrays, facts)


def draw(numbers: Numbers) -> Figure:
    """Draw pairs with their reconstructions at the left, single-operator traversals beside."""
    page, headings = [], []
    for name, colour in (("sparse", COLOURS[0]), ("dense", COLOURS[1])):
        facts, frames = numbers.facts[name], numbers[f"{name}.traversals"]
        pairs = Block(
            numbers[f"{name}.columns"],
            title="pairs",
            column_labels=("x̂₀", "x̂₁", "path", "2 ×"),
            colour=colour,
        )
        singles = Block(
            frames,
            title="one operator per row",
            row_labels=[str(m) for m in facts["operators"]],
            column_labels=[f"{t:+.3g}" for t in np.linspace(-_REACH, _REACH, _STEPS)],
            boxed=[(row, _STEPS // 2) for row in range(len(frames))],
            colour=colour,
        )
        page.append([pairs, singles])
        headings.append(
            f"{name.capitalize()}: relative error {facts['relative_error']:.2g}, "
            f"{facts['n_used_per_pair']:.1f} operators per pair, "
            f"growth rate {facts['eigenvalue_times_coefficient']:.2g}"
        )
    return image_blocks(page, headings=headings, cell_inches=0.4)


def _encode(model: Any, run: PaperRun, rows: np.ndarray) -> Float[Tensor, "n d"]:
    parts = torch.split(torch.from_numpy(rows), 1000)
    return torch.cat([model.encode(run.dataset.batch(part)) for part in parts])


def _measure(
    operators: Float[Tensor, "m d d"],
    coefficients: Float[Tensor, "n m"],
    z0: Float[Tensor, "n d"],
    z1: Float[Tensor, "n d"],
) -> dict[str, Any]:
    """Sum up a model's paths and the stability of its operators.

    Differs from the paper, which divides the largest real part by the average coefficient: their
    product is reported first. Operators twice as large with coefficients half as large are the
    same model, and only the product does not change: it is the growth rate of a typical move.
    """
    error = (z1 - transport(operators, coefficients, z0)).square().sum(1)
    average = coefficients.abs().mean(0)
    largest = eigenvalues(operators).real.amax(1)
    used = average > 1e-6
    return {
        "transport_error": float(error.mean() / 2),
        "relative_error": float((error / z1.square().sum(1)).mean()),
        "n_used_per_pair": float((coefficients.abs() > 1e-6).sum(1).float().mean()),
        "eigenvalue_times_coefficient": float((largest * average)[used].median()),
        "eigenvalue_over_coefficient": float((largest / average)[used].median()),
    }


def _columns(
    run: PaperRun,
    model: Any,
    rows: np.ndarray,
    starts: Tensor,
    ends: Tensor,
    coefficients: Float[Tensor, "n m"],
) -> Float[np.ndarray, "n 4 c h w"]:
    """Show start, end, the end of the path, and the path taken twice as far, all decoded.

    Reconstructions of start and end, not the images, are what a path can show at best.
    """
    shown = slice(0, _SHOWN_PAIRS)
    z0, z1 = (_encode(model, run, rows[part[shown].numpy()]) for part in (starts, ends))
    images = [model.decode(z).cpu() for z in (z0, z1)]
    operators = model.operators.operators.detach()
    for factor in (1.0, 2.0):
        moved = transport(operators, factor * coefficients[shown], z0)
        images.append(model.decode(moved).cpu())
    return as_array(torch.stack(images, dim=1))


FIGURE = PaperFigure(__doc__, "Figures 9 and 10", compute, draw)
