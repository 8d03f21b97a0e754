"""Small smooth shapes from which every face is put together.

A shape is a field of signed distances over the picture (negative inside). Turning a distance
into coverage over about one pixel gives anti-aliased edges without supersampling, and keeps
the picture continuous in every number that places the shape.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Field = Float[Tensor, "..."]


def coverage(distance: Field, edge: float) -> Field:
    """Turn signed distances into opacities that fall from 1 to 0 across an edge of this width."""
    return (0.5 - distance / edge).clamp_(0.0, 1.0)


def soft_step(values: Field, start: float | Field, end: float | Field) -> Field:
    """Rise smoothly from 0 at ``start`` to 1 at ``end``."""
    t = ((values - start) / (end - start)).clamp_(0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def _fade(squares: Field) -> Field:
    """Fall like exp(-squares), but reach zero exactly at 4.

    The exponential itself would leave denormal numbers all over the picture, on which
    processors compute many times slower.
    """
    left = (1.0 - 0.25 * squares).clamp_min_(0.0)
    left = left * left
    return left * left


def bump(offset: Field, width: float | Field) -> Field:
    """Rise to 1 where the offset is zero and fade to nothing within two widths."""
    scaled = offset / width
    return _fade(scaled * scaled)


def glow(x: Field, y: Field, width: float | Field, height: float | Field) -> Field:
    """Draw a soft round spot: 1 at the origin, gone at twice the given width and height."""
    x, y = x / width, y / height
    return _fade(x * x + y * y)


def trail(distance: Field, width: float) -> Field:
    """Fade from 1 at zero and below to nothing four widths away, as a thrown shadow does."""
    return _fade(distance.clamp_min(0.0) / width)


def ellipse(x: Field, y: Field, width: float | Field, height: float | Field) -> Field:
    """Measure the (first-order) signed distance to an ellipse around the origin."""
    x, y = x / width, y / height
    radius = torch.sqrt(x * x + y * y)
    x, y = x / width, y / height
    slope = torch.sqrt(x * x + y * y)
    return radius * (radius - 1.0) / (slope + 1e-6)


def rounded_box(
    x: Field, y: Field, width: float | Field, height: float | Field, radius: float
) -> Field:
    """Measure the signed distance to a box around the origin with rounded corners."""
    x_over = x.abs() - (width - radius)
    y_over = y.abs() - (height - radius)
    outside = torch.hypot(x_over.clamp_min(0.0), y_over.clamp_min(0.0))
    return outside + torch.maximum(x_over, y_over).clamp_max(0.0) - radius


def mix(first: Field, second: Field, share: float | Field) -> Field:
    """Blend two values: all of the first at share 0, all of the second at share 1."""
    return first + (second - first) * share
