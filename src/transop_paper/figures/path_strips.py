"""Path strips: interpolation and extrapolation as images, with the class probability below."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from transop.evaluation import PathModel, same_class_pairs
from transop_paper.figures.figure import PaperFigure
from transop_paper.figures.methods import METHOD_COLOURS, METHOD_NAMES, model_of
from transop_paper.figures.numbers import Numbers
from transop_paper.figures.paper_run import PaperRun, as_array
from transop_paper.plotting import probability_strips

_TIMES = np.arange(0, 2.76, 0.25)


def compute(run: PaperRun) -> Numbers:
    """Join test images of one class by every method and classify the images along the paths."""
    first, second, labels = _pairs(run, n=3)
    start, end = run.dataset.batch(first), run.dataset.batch(second)
    frames, probability = [], []
    for method in METHOD_NAMES:
        model: PathModel = model_of(run, method)  # type: ignore[assignment]
        z0, z1 = model.encode(start), model.encode(end)
        path = model.latent_path(z0, z1, torch.tensor(_TIMES).to(z0))
        images = model.decode(path.flatten(0, 1))
        chances = run.image_classifier(images).softmax(1).view(*path.shape[:2], -1)
        frames.append(as_array(images).reshape(*path.shape[:2], *images.shape[1:]))
        probability.append(
            np.stack([as_array(c[:, k]) for c, k in zip(chances, labels, strict=True)])
        )
    arrays = {
        "times": _TIMES,
        "frames": np.stack(frames, axis=1),
        "probability": np.stack(probability, axis=1),
        "ends": as_array(end),
    }
    return Numbers(arrays, {"methods": list(METHOD_NAMES), "labels": _names(run, labels)})


def draw(numbers: Numbers) -> Figure:
    """Draw strips of all methods for each pair, and under them the probability of the class."""
    methods = numbers.facts["methods"]
    return probability_strips(
        numbers["times"],
        numbers["frames"],
        numbers["probability"],
        names=[METHOD_NAMES[m] for m in methods],
        colours=[METHOD_COLOURS[m] for m in methods],
        titles=[f"class {name}" for name in numbers.facts["labels"]],
    )


def _pairs(run: PaperRun, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw one pair for each of n classes spread over all of them: drawn, not picked."""
    rows = run.held_out_rows
    assert run.dataset.labels is not None
    labels = run.dataset.labels[rows]
    first, second = same_class_pairs(labels, 1, run.generator("path strips"))
    chosen = np.linspace(0, len(first) - 1, min(n + 2, len(first))).astype(int)[1:-1]
    if len(chosen) == 0:
        chosen = np.arange(len(first))
    return rows[first[chosen]], rows[second[chosen]], labels[first[chosen]]


def _names(run: PaperRun, labels: np.ndarray) -> list[str]:
    names = run.class_names
    return [names[label] for label in labels]


FIGURE = PaperFigure(
    title="Interpolation and extrapolation",
    caption=(
        "Paths between two test images of one class, drawn at random. At t = 0 stands the first "
        "image, at t = 1 (outlined) the second; beyond, the path goes on where it was heading. "
        "The curves below say how sure a classifier is that the image still belongs to its class. "
        "Transport operators follow curved paths; the other methods go straight."
    ),
    paper="Figure 3",
    compute=compute,
    draw=draw,
    needs=("operators", "classifier"),
    columns=("labels",),
)
