"""Which transformations each class allows.

Rows are classes, columns operators; the colour is the average scale the coefficient encoder gives.
Yellow: the classifier does not mind the transformation. Blue: it soon sees another class. The
strips apply one operator over the same range to the class with its highest (yellow) and its lowest
(blue) scale; the middle image is the reconstruction.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

from transop_app.report.maps import HIGH, LOW, scale_map
from transop_paper.figures.figure import Numbers, PaperFigure
from transop_paper.figures.operator_paths import operator_strips, strip_blocks
from transop_paper.figures.paper_run import PaperRun, as_array

_STRIPS = 3  # operators shown beside the table, each on its highest and its lowest class
_REACH = 0.8  # how far strips go, as a share of the latent point's length


def compute(run: PaperRun) -> Numbers:
    """Average the encoded scales by class, and move examples of the extreme cells."""
    labels = run.dataset.labels
    assert labels is not None
    rows = run.held_out_rows[: run.sized(1000, 10_000)]
    living = sorted(run.living_operators)
    scales = as_array(run.model.scales_at(run.latents(rows)))[:, living]
    classes = np.unique(labels[rows])
    table = np.stack([scales[labels[rows] == k].mean(0) for k in classes])
    spread = np.ptp(table, axis=0) / table.mean(0)
    shown = np.argsort(-spread)[:_STRIPS]
    amounts = torch.linspace(-1, 1, 9)
    typical = dict(zip(classes.tolist(), run.examples(), strict=False))
    cells, strips = [], []
    for ends in (table.argmax(0), table.argmin(0)):
        for column in shown:
            k, m = int(classes[ends[column]]), living[column]
            cells.append([k, m])
            row = np.array([typical[k]])
            strips.append(operator_strips(run, [m], row, _REACH * amounts)[0][0, 0])
    arrays = {"table": table, "strips": np.stack(strips), "cells": np.array(cells)}
    names = run.class_names
    return Numbers(arrays, {"operators": living, "classes": [names[k] for k in classes]})


def draw(numbers: Numbers) -> Figure:
    """Draw the table and, beside it, strips of high and low cells."""
    names = numbers.facts["classes"]
    titles = [f"operator {m} on class {names[k]}" for k, m in numbers["cells"]]
    strips, half = numbers["strips"][:, None], len(titles) // 2
    return scale_map(
        numbers["table"],
        strip_blocks(strips[:half], [f"{words}: high scale" for words in titles[:half]], HIGH),
        strip_blocks(strips[half:], [f"{words}: low scale" for words in titles[half:]], LOW),
        row_labels=names,
        column_labels=[str(m) for m in numbers.facts["operators"]],
    )


FIGURE = PaperFigure(
    __doc__,
    "Figure 5 (c, d)",
    compute,
    draw,
    needs=("operators", "coefficient_encoder"),
    columns=("labels",),
)
