"""Where LeNet-5 lives while it is trained: one flat workspace of float32, cut into rooms.

Pixels hold their channels side by side, so that a row of a filter reads one run of neighbouring
numbers. Numbers of outputs are padded with zeros to a multiple of eight, one register; padded
weights have no gradient and therefore stay zero.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[Any]

LANES = 8  # float32 numbers per register
TAPS = 5  # side of every filter
SUMS_ROWS = TAPS + 1  # rows of a filter's gradient, and one for its bias
FILTERS = (6, 16)
HIDDEN = (120, 84)
SPARE = 64  # rows of patches are read whole registers at a time, up to here beyond their room


class Convolution(NamedTuple):
    """A convolution with ReLU and 2 x 2 max pooling: sizes, and where its numbers start."""

    n_in: int  # channels of the source
    n_out: int  # filters
    n_padded: int  # filters, rounded up
    row: int  # numbers in a row of the source
    pooled: int  # side of the result
    source: int
    source_step: int  # from image to image
    target: int
    target_step: int
    choices: int  # which of the four was largest: n_padded per pixel of the result
    filters: int  # (row, column, channel, filter)
    bias: int
    sums: int  # gradient as it is summed: (filter, row, column and channel), bias last
    sums_row: int


class Dense(NamedTuple):
    """A linear layer: sizes, and where its numbers start; slopes are gradients of activations."""

    n_in: int
    n_out: int  # rounded up
    source: int
    source_slopes: int
    target: int
    target_slopes: int
    weights: int  # (in, out)
    bias: int


class Rooms(NamedTuple):
    """Sizes of the training, its layers, and where the rest starts."""

    size: int
    batch: int
    rows: int  # of activations: the batch, but at least one tile of the matrix product
    n_classes: int
    convolution1: Convolution
    convolution2: Convolution
    dense1: Dense
    dense2: Dense
    dense3: Dense
    n_parameters: int  # which start at 0
    gradient: int
    mean: int  # Adam's running mean of the gradient
    square: int  # and of its square
    middle_slopes: int  # of one image between the convolutions, eight numbers per pixel
    taps: int  # the second convolution's filters as registers: (filter, row, column, channel)
    mirror: int  # transpose of a linear layer's weights
    amounts: int  # slopes that passed pooling and ReLU, of one channel
    nothing: int  # zeros
    total: int


class _Floor:
    """Hands out room after room, each starting on a cache line."""

    def __init__(self) -> None:
        self.taken = 0

    def room(self, n: int) -> int:
        start = self.taken
        self.taken += round_up(n, 16)
        return start


def round_up(n: int, multiple: int = LANES) -> int:
    """Round a count up to a multiple."""
    return -(-n // multiple) * multiple


def arrange_rooms(*, size: int, channels: int, n_classes: int, batch: int) -> Rooms:
    """Lay out the workspace for images of ``channels`` x ``size`` x ``size``."""
    floor, rows = _Floor(), max(batch, LANES)
    half = size // 2
    side = (half - TAPS + 1) // 2
    counts = [FILTERS[1] * side**2, *(round_up(n) for n in (*HIDDEN, n_classes))]
    filters = [
        (floor.room(TAPS**2 * n_in * round_up(n_out)), floor.room(round_up(n_out)))
        for n_in, n_out in pairwise((channels, *FILTERS))
    ]
    weights = [(floor.room(n_in * n_out), floor.room(n_out)) for n_in, n_out in pairwise(counts)]
    n_parameters = floor.taken
    gradient, mean, square = (floor.room(n_parameters) for _ in range(3))
    dense1, dense2, dense3 = _arrange_dense(floor, counts, rows, weights)
    sides = (size + TAPS - 1, half, side)
    convolution1, convolution2 = _arrange_convolutions(
        floor, channels, sides, batch, filters, dense1.source
    )
    return Rooms(
        size=size,
        batch=batch,
        rows=rows,
        n_classes=n_classes,
        convolution1=convolution1,
        convolution2=convolution2,
        dense1=dense1,
        dense2=dense2,
        dense3=dense3,
        n_parameters=n_parameters,
        gradient=gradient,
        mean=mean,
        square=square,
        middle_slopes=floor.room(half**2 * LANES),
        taps=floor.room(FILTERS[1] * TAPS**2 * LANES),
        mirror=floor.room(max(n_in * n_out for n_in, n_out in pairwise(counts))),
        amounts=floor.room(half**2),
        nothing=floor.room(max(counts)),
        total=floor.taken,
    )


def _arrange_dense(
    floor: _Floor, counts: list[int], rows: int, weights: list[tuple[int, int]]
) -> list[Dense]:
    """Lay out the linear layers; ``counts`` are of features, hidden units and logits."""
    units = [(n, floor.room(rows * n), floor.room(rows * n)) for n in counts]
    return [
        Dense(before[0], after[0], *before[1:], *after[1:], *places)
        for (before, after), places in zip(pairwise(units), weights, strict=True)
    ]


def _arrange_convolutions(
    floor: _Floor,
    channels: int,
    sides: tuple[int, int, int],
    batch: int,
    filters: list[tuple[int, int]],
    features: int,
) -> list[Convolution]:
    """Lay out both convolutions; ``sides`` are of images with borders and of pooled maps."""
    depths = (channels, *FILTERS)
    # Writing the last pixel of an image spills over its end, reading it reads beyond.
    steps = [
        sides[0] ** 2 * channels,
        sides[1] ** 2 * FILTERS[0] + LANES,
        sides[2] ** 2 * FILTERS[1],
    ]
    maps = [*(floor.room(batch * step + SPARE) for step in steps[:2]), features]
    return [
        Convolution(
            n_in=depths[k],
            n_out=depths[k + 1],
            n_padded=round_up(depths[k + 1]),
            row=sides[k] * depths[k],
            pooled=sides[k + 1],
            source=maps[k],
            source_step=steps[k],
            target=maps[k + 1],
            target_step=steps[k + 1],
            choices=floor.room(batch * sides[k + 1] ** 2 * round_up(depths[k + 1])),
            filters=filters[k][0],
            bias=filters[k][1],
            sums=floor.room(depths[k + 1] * SUMS_ROWS * round_up(TAPS * depths[k])),
            sums_row=round_up(TAPS * depths[k]),
        )
        for k in range(2)
    ]


def place_parameters(rooms: Rooms) -> list[NDArray[np.intp]]:
    """Tell where in the workspace every parameter lives, in the order and shapes of the module."""
    places = []
    for layer in (rooms.convolution1, rooms.convolution2):
        shape = (TAPS, TAPS, layer.n_in, layer.n_padded)
        filters = np.arange(np.prod(shape)).reshape(shape).transpose(3, 2, 0, 1)
        places += [layer.filters + filters[: layer.n_out], layer.bias + np.arange(layer.n_out)]
    side = rooms.convolution2.pooled
    features = np.arange(rooms.dense1.n_in).reshape(side, side, -1).transpose(2, 0, 1).ravel()
    inputs = (features, np.arange(HIDDEN[0]), np.arange(HIDDEN[1]))
    counts = (*HIDDEN, rooms.n_classes)
    dense = (rooms.dense1, rooms.dense2, rooms.dense3)
    for linear, rows, n_out in zip(dense, inputs, counts, strict=True):
        outputs = np.arange(n_out)
        places += [
            linear.weights + rows * linear.n_out + outputs[:, None],
            linear.bias + outputs,
        ]
    return places
