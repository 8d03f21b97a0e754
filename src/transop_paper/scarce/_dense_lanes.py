"""Linear layers of a whole batch, the loss, and Adam, on one flat workspace."""

import math
from typing import NamedTuple

import numpy as np

from transop.inference._lanes import compiled, fma, load, spread, store
from transop_paper.scarce._lenet_rooms import LANES, Dense, Flat

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults


class Matrix(NamedTuple):
    """Where a matrix starts, and how far its rows and columns are apart."""

    at: int
    down: int
    across: int


@compiled
def multiply(
    ws: Flat, left: Matrix, right: Matrix, start: int, to: int, n: int, depth: int, width: int
) -> None:
    """Write start + left right, (n, width); rows of ``right`` and ``start`` are contiguous.

    A tile is eight rows times one register: eight sums hide the latency of adding. The last
    tile overlaps the one before, hence ``n`` of at least eight.
    """
    down = left.down
    for column in range(0, width, LANES):
        first = load(ws, start + column)
        for row in range(0, n, LANES):
            top = min(row, n - LANES)
            a, b, c, d, e, f, g, h = first, first, first, first, first, first, first, first
            at, across = left.at + top * down, right.at + column
            for _ in range(depth):
                numbers = load(ws, across)
                a = fma(spread(ws, at), numbers, a)
                b = fma(spread(ws, at + down), numbers, b)
                c = fma(spread(ws, at + 2 * down), numbers, c)
                d = fma(spread(ws, at + 3 * down), numbers, d)
                e = fma(spread(ws, at + 4 * down), numbers, e)
                f = fma(spread(ws, at + 5 * down), numbers, f)
                g = fma(spread(ws, at + 6 * down), numbers, g)
                h = fma(spread(ws, at + 7 * down), numbers, h)
                at += left.across
                across += right.down
            place = to + top * width + column
            for total in (a, b, c, d, e, f, g, h):
                store(ws, place, total)
                place += width


@compiled
def map_linearly(ws: Flat, layer: Dense, rows: int) -> None:
    """Compute a linear layer."""
    sources, weights = Matrix(layer.source, layer.n_in, 1), Matrix(layer.weights, layer.n_out, 1)
    multiply(ws, sources, weights, layer.bias, layer.target, rows, layer.n_in, layer.n_out)


@compiled
def rectify(ws: Flat, layer: Dense, rows: int) -> None:
    """Replace negative results of a layer by zero."""
    for at in range(layer.target, layer.target + rows * layer.n_out):
        ws[at] = max(ws[at], np.float32(0.0))


@compiled
def differentiate_layer(
    ws: Flat, layer: Dense, rows: int, gradient: int, mirror: int, nothing: int
) -> None:
    """Compute the gradient of a layer's weights, and its slopes: zero where a source is zero."""
    n_in, n_out = layer.n_in, layer.n_out
    slopes = Matrix(layer.target_slopes, n_out, 1)
    sources = Matrix(layer.source, 1, n_in)
    multiply(ws, sources, slopes, nothing, gradient + layer.weights, n_in, rows, n_out)
    for k in range(n_out):
        ws[gradient + layer.bias + k] = 0.0
    for row in range(rows):
        for k in range(n_out):
            ws[gradient + layer.bias + k] += ws[layer.target_slopes + row * n_out + k]
    for k in range(n_out):
        for m in range(n_in):
            ws[mirror + k * n_in + m] = ws[layer.weights + m * n_out + k]
    multiply(ws, slopes, Matrix(mirror, n_in, 1), nothing, layer.source_slopes, rows, n_out, n_in)
    for k in range(rows * n_in):
        if not ws[layer.source + k] > 0.0:
            ws[layer.source_slopes + k] = 0.0


@compiled
def measure_loss(ws: Flat, layer: Dense, labels: Flat, n_classes: int) -> float:
    """Give the mean cross-entropy of the logits and write its slopes."""
    loss, batch = 0.0, len(labels)
    for row in range(batch):
        at, to = layer.target + row * layer.n_out, layer.target_slopes + row * layer.n_out
        top = ws[at]
        for k in range(1, n_classes):
            top = max(top, ws[at + k])
        total = 0.0
        for k in range(n_classes):
            total += math.exp(ws[at + k] - top)
        for k in range(n_classes):
            ws[to + k] = math.exp(ws[at + k] - top) / total / batch
        ws[to + labels[row]] -= 1.0 / batch
        loss += math.log(total) + top - ws[at + labels[row]]
    return loss / batch


@compiled
def adapt(
    weights: Flat,
    gradient: Flat,
    mean: Flat,
    square: Flat,
    rate: float,
    weight_decay: float,
    n_steps: int,
) -> None:
    """Take step number ``n_steps`` of Adam, the penalty's gradient added to the loss's."""
    fresh1, beta2, fresh2 = np.float32(1.0 - BETA1), np.float32(BETA2), np.float32(1.0 - BETA2)
    decay, epsilon = np.float32(weight_decay), np.float32(EPSILON)
    pace = np.float32(rate / (1.0 - BETA1**n_steps))
    root = np.float32(1.0 / math.sqrt(1.0 - BETA2**n_steps))
    for k in range(len(weights)):
        slope = gradient[k] + decay * weights[k]
        mean[k] += fresh1 * (slope - mean[k])
        square[k] = beta2 * square[k] + fresh2 * slope * slope
        weights[k] -= pace * mean[k] / (math.sqrt(square[k]) * root + epsilon)
