"""Steps of training LeNet-5: images in, loss, gradient, Adam."""

from transop.inference._lanes import spliced
from transop_paper.scarce._convolution_lanes import (
    add_filter_gradient,
    convolve_and_pool,
    lay_out_taps,
    list_active,
    scatter_slopes,
    write_filter_gradient,
)
from transop_paper.scarce._dense_lanes import (
    adapt,
    differentiate_layer,
    map_linearly,
    measure_loss,
    rectify,
)
from transop_paper.scarce._lenet_rooms import LANES, SUMS_ROWS, TAPS, Convolution, Flat, Rooms


@spliced
def _enter(ws: Flat, rooms: Rooms, images: Flat) -> None:
    """Copy a batch between its borders of zeros, channels side by side."""
    layer = rooms.convolution1
    for image in range(rooms.batch):
        for channel in range(layer.n_in):
            for y in range(rooms.size):
                to = layer.source + image * layer.source_step + (y + 2) * layer.row
                to += 2 * layer.n_in + channel
                for x in range(rooms.size):
                    ws[to + x * layer.n_in] = images[image, channel, y, x]


@spliced
def _clear(ws: Flat, start: int, n: int) -> None:
    for at in range(start, start + n):
        ws[at] = 0.0


@spliced
def _clear_sums(ws: Flat, layer: Convolution) -> None:
    _clear(ws, layer.sums, layer.n_out * SUMS_ROWS * layer.sums_row)


@spliced
def _differentiate_convolutions(ws: Flat, rooms: Rooms, places: Flat) -> None:
    """Compute the gradient of both convolutions from the slopes of the features."""
    upper, lower, amounts = rooms.convolution2, rooms.convolution1, rooms.amounts
    middle, width = rooms.middle_slopes, lower.pooled
    lay_out_taps(ws, upper, rooms.taps)
    _clear_sums(ws, upper)
    _clear_sums(ws, lower)
    for image in range(rooms.batch):
        _clear(ws, middle, width * width * LANES)
        slopes = rooms.dense1.source_slopes + image * rooms.dense1.n_in
        for channel in range(upper.n_out):
            n = list_active(ws, upper, image, channel, slopes, upper.n_out, places, amounts)
            add_filter_gradient(ws, upper, image, channel, places, amounts, n)
            taps = rooms.taps + channel * TAPS * TAPS * LANES
            scatter_slopes(ws, taps, middle, width, places, amounts, n)
        for channel in range(lower.n_out):
            n = list_active(ws, lower, image, channel, middle, LANES, places, amounts)
            add_filter_gradient(ws, lower, image, channel, places, amounts, n)
    write_filter_gradient(ws, upper, rooms.gradient)
    write_filter_gradient(ws, lower, rooms.gradient)


@spliced
def differentiate(ws: Flat, rooms: Rooms, places: Flat, images: Flat, labels: Flat) -> float:
    """Write the gradient of the mean cross-entropy of a batch and give its value."""
    gradient, mirror, nothing, rows = rooms.gradient, rooms.mirror, rooms.nothing, rooms.rows
    _enter(ws, rooms, images)
    for image in range(rooms.batch):
        convolve_and_pool(ws, rooms.convolution1, image)
        convolve_and_pool(ws, rooms.convolution2, image)
    map_linearly(ws, rooms.dense1, rows)
    rectify(ws, rooms.dense1, rows)
    map_linearly(ws, rooms.dense2, rows)
    rectify(ws, rooms.dense2, rows)
    map_linearly(ws, rooms.dense3, rows)
    loss = measure_loss(ws, rooms.dense3, labels, rooms.n_classes)
    differentiate_layer(ws, rooms.dense3, rows, gradient, mirror, nothing)
    differentiate_layer(ws, rooms.dense2, rows, gradient, mirror, nothing)
    differentiate_layer(ws, rooms.dense1, rows, gradient, mirror, nothing)
    _differentiate_convolutions(ws, rooms, places)
    return loss


@spliced
def take_steps(
    ws: Flat,
    rooms: Rooms,
    places: Flat,
    images: Flat,
    labels: Flat,
    rates: Flat,
    losses: Flat,
    weight_decay: float,
    n_done: int,
) -> None:
    """Take one step of Adam per learning rate, each on the next images."""
    n = rooms.n_parameters
    weights = ws[:n]
    gradient = ws[rooms.gradient : rooms.gradient + n]
    mean = ws[rooms.mean : rooms.mean + n]
    square = ws[rooms.square : rooms.square + n]
    for step in range(len(rates)):
        start, stop = step * rooms.batch, (step + 1) * rooms.batch
        losses[step] = differentiate(ws, rooms, places, images[start:stop], labels[start:stop])
        adapt(weights, gradient, mean, square, rates[step], weight_decay, n_done + step + 1)
