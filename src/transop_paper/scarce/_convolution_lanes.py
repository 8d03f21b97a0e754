"""Convolution, ReLU and pooling of one image at a time, eight filters per register.

Of four numbers that are pooled only the largest has a gradient, and only if it is positive. The
way back therefore visits single places instead of whole maps: about an eighth of the work.
"""

import numpy as np

from transop.inference._lanes import (
    compiled,
    embedded,
    fma,
    larger,
    load,
    splat,
    spread,
    store,
    where_positive,
)
from transop_paper.scarce._lenet_rooms import LANES, SUMS_ROWS, TAPS, Convolution, Flat


@embedded
def _pool(ws: Flat, a: Flat, b: Flat, c: Flat, d: Flat, target: int, choice: int) -> None:
    """Keep the largest of four registers where positive, and which one it was."""
    best, which = a, splat(ws, 0.0)
    which = where_positive(b - best, splat(ws, 1.0), which)
    best = larger(best, b)
    which = where_positive(c - best, splat(ws, 2.0), which)
    best = larger(best, c)
    which = where_positive(d - best, splat(ws, 3.0), which)
    best = larger(best, d)
    store(ws, target, larger(splat(ws, 0.0), best))
    store(ws, choice, which)


@embedded
def _convolve_two(
    ws: Flat, layer: Convolution, upper: int, target: int, choice: int, block: int
) -> None:
    """Compute two neighbouring pooled pixels of eight filters: eight sums hide adding's latency."""
    n, row, padded = layer.n_in, layer.row, layer.n_padded
    bias = load(ws, layer.bias + block)
    a, b, c, d, e, f, g, h = bias, bias, bias, bias, bias, bias, bias, bias
    w = layer.filters + block
    for _ in range(TAPS):
        for at in range(upper, upper + TAPS * n):
            taps = load(ws, w)
            a = fma(spread(ws, at), taps, a)
            b = fma(spread(ws, at + n), taps, b)
            c = fma(spread(ws, at + 2 * n), taps, c)
            d = fma(spread(ws, at + 3 * n), taps, d)
            e = fma(spread(ws, at + row), taps, e)
            f = fma(spread(ws, at + row + n), taps, f)
            g = fma(spread(ws, at + row + 2 * n), taps, g)
            h = fma(spread(ws, at + row + 3 * n), taps, h)
            w += padded
        upper += row
    _pool(ws, a, b, e, f, target, choice)
    _pool(ws, c, d, g, h, target + layer.n_out, choice + padded)


@compiled
def convolve_and_pool(ws: Flat, layer: Convolution, image: int) -> None:
    """Compute the pooled maps of an image.

    Padded filters spill zeros over the next pixel, which is written after them.
    """
    source = layer.source + image * layer.source_step
    target = layer.target + image * layer.target_step
    choices = layer.choices + image * layer.pooled * layer.pooled * layer.n_padded
    for block in range(0, layer.n_padded, LANES):
        for y in range(layer.pooled):
            for start in range(0, layer.pooled, 2):
                x = min(start, layer.pooled - 2)  # an odd last one brings its neighbour again
                pixel = y * layer.pooled + x
                upper = source + 2 * y * layer.row + 2 * x * layer.n_in
                to = target + pixel * layer.n_out + block
                _convolve_two(ws, layer, upper, to, choices + pixel * layer.n_padded + block, block)


@compiled
def list_active(
    ws: Flat,
    layer: Convolution,
    image: int,
    channel: int,
    slopes: int,
    slopes_step: int,
    places: Flat,
    amounts: int,
) -> int:
    """List where a filter's slopes pass pooling and ReLU, as pixels of the source, and count."""
    value = layer.target + image * layer.target_step + channel
    choice = layer.choices + image * layer.pooled * layer.pooled * layer.n_padded + channel
    slope = slopes + channel
    width, count = layer.row // layer.n_in, 0
    for y in range(layer.pooled):
        for x in range(layer.pooled):
            which = np.intp(ws[choice])
            # Written in any case and kept by counting: guessing branches would cost more.
            places[count] = (2 * y + which // 2) * width + 2 * x + which % 2
            ws[amounts + count] = ws[slope]
            count += ws[value] > 0.0
            value += layer.n_out
            choice += layer.n_padded
            slope += slopes_step
    return count


@compiled
def add_filter_gradient(
    ws: Flat, layer: Convolution, image: int, channel: int, places: Flat, amounts: int, count: int
) -> None:
    """Add slopes times the patches they saw to a filter's gradient."""
    row, step = layer.row, layer.sums_row
    for column in range(0, step, LANES):
        source = layer.source + image * layer.source_step + column
        to = layer.sums + channel * SUMS_ROWS * step + column
        a, b, c = load(ws, to), load(ws, to + step), load(ws, to + 2 * step)
        d, e, f = load(ws, to + 3 * step), load(ws, to + 4 * step), load(ws, to + 5 * step)
        for k in range(count):
            slope = spread(ws, amounts + k)
            at = source + places[k] * layer.n_in
            a = fma(slope, load(ws, at), a)
            b = fma(slope, load(ws, at + row), b)
            c = fma(slope, load(ws, at + 2 * row), c)
            d = fma(slope, load(ws, at + 3 * row), d)
            e = fma(slope, load(ws, at + 4 * row), e)
            f = f + slope
        for total in (a, b, c, d, e, f):
            store(ws, to, total)
            to += step


@compiled
def scatter_slopes(
    ws: Flat, taps: int, slopes: int, width: int, places: Flat, amounts: int, count: int
) -> None:
    """Add slopes times a filter to the slopes of the pixels under it, a register per pixel."""
    for k in range(count):
        slope = spread(ws, amounts + k)
        at, w = slopes + places[k] * LANES, taps
        for _ in range(TAPS):
            a = fma(slope, load(ws, w), load(ws, at))
            b = fma(slope, load(ws, w + LANES), load(ws, at + LANES))
            c = fma(slope, load(ws, w + 2 * LANES), load(ws, at + 2 * LANES))
            d = fma(slope, load(ws, w + 3 * LANES), load(ws, at + 3 * LANES))
            e = fma(slope, load(ws, w + 4 * LANES), load(ws, at + 4 * LANES))
            store(ws, at, a)
            store(ws, at + LANES, b)
            store(ws, at + 2 * LANES, c)
            store(ws, at + 3 * LANES, d)
            store(ws, at + 4 * LANES, e)
            at += width * LANES
            w += TAPS * LANES


@compiled
def write_filter_gradient(ws: Flat, layer: Convolution, gradient: int) -> None:
    """Copy the summed gradient to the order of the filters."""
    for channel in range(layer.n_out):
        for row in range(TAPS):
            at = layer.sums + (channel * SUMS_ROWS + row) * layer.sums_row
            to = gradient + layer.filters + row * TAPS * layer.n_in * layer.n_padded + channel
            for k in range(TAPS * layer.n_in):
                ws[to + k * layer.n_padded] = ws[at + k]
        total = layer.sums + (channel * SUMS_ROWS + TAPS) * layer.sums_row
        ws[gradient + layer.bias + channel] = ws[total]


@compiled
def lay_out_taps(ws: Flat, layer: Convolution, taps: int) -> None:
    """Copy the filters so that each tap's channels fill a register."""
    for channel in range(layer.n_out):
        for tap in range(TAPS * TAPS):
            for k in range(layer.n_in):
                at = layer.filters + (tap * layer.n_in + k) * layer.n_padded + channel
                ws[taps + (channel * TAPS * TAPS + tap) * LANES + k] = ws[at]
