"""Colours of skin, hair, lips, cloth and background as smooth functions of the factors."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Colour = Float[Tensor, "#faces 3 1 1"]
Amount = Float[Tensor, "#faces 1 1"]

_SKIN = (
    (0.30, 0.18, 0.13),
    (0.50, 0.32, 0.22),
    (0.73, 0.51, 0.37),
    (0.89, 0.69, 0.55),
    (0.97, 0.84, 0.77),
)
_HAIR = (
    (0.06, 0.055, 0.07),
    (0.17, 0.10, 0.075),
    (0.38, 0.21, 0.11),
    (0.64, 0.43, 0.20),
    (0.93, 0.77, 0.44),
)
_SILVER = (0.76, 0.77, 0.80)
_IRIS = ((0.22, 0.12, 0.07), (0.33, 0.22, 0.10), (0.24, 0.40, 0.52))


def fixed(red: float, green: float, blue: float) -> Colour:
    """Give one colour to every face."""
    return torch.tensor([red, green, blue]).view(1, 3, 1, 1)


def _along(stops: tuple[tuple[float, float, float], ...], position: Amount) -> Colour:
    """Read a colour off a ramp of equally spaced stops, 0 at the first and 1 at the last."""
    table = torch.tensor(stops, dtype=position.dtype, device=position.device)
    scaled = position.clamp(0.0, 1.0).unsqueeze(1) * (len(stops) - 1)
    knots = torch.arange(len(stops), device=position.device).view(1, -1, 1, 1)
    weights = (1.0 - (scaled - knots).abs()).clamp_min(0.0)
    return torch.einsum("bkhw,kc->bchw", weights, table)


def skin(tone: Amount) -> Colour:
    """Colour the skin from dark to pale."""
    return _along(_SKIN, tone)


def hair(lightness: Amount, grayness: Amount) -> Colour:
    """Colour the hair from black to blond, then wash the colour out towards silver."""
    silver = fixed(*_SILVER).to(lightness)
    colour = _along(_HAIR, lightness)
    return colour + (silver - colour) * (0.95 * grayness).unsqueeze(1)


def iris(hair_lightness: Amount) -> Colour:
    """Colour the iris: brown under dark hair, blue under blond."""
    return _along(_IRIS, hair_lightness)


def lips(skin_colour: Colour, lipstick: Amount) -> Colour:
    """Colour the lips a little redder than the skin, or red with lipstick."""
    bare = skin_colour * fixed(0.86, 0.58, 0.56).to(skin_colour)
    return bare + (fixed(0.80, 0.05, 0.16).to(bare) - bare) * lipstick.unsqueeze(1)


def hue(angle: Amount, saturation: float, level: float | Amount) -> Colour:
    """Read a colour off the colour circle: smooth, and the same at 0 and 1."""
    phases = torch.tensor([0.0, 1.0 / 3.0, 2.0 / 3.0], device=angle.device).view(1, 3, 1, 1)
    wave = torch.cos(2.0 * math.pi * (angle.unsqueeze(1) - phases))
    strength = level.unsqueeze(1) if isinstance(level, Tensor) else level
    return strength * (1.0 + saturation * (wave - 0.25)) / (1.0 + 0.45 * saturation)
