"""Things to put on: glasses, sunglasses and a knitted hat."""

import torch

from transop_paper.faces.drawing import palette
from transop_paper.faces.drawing.easel import HEAD_HEIGHT, Canvas, Sitter, light_on
from transop_paper.faces.drawing.features import EYE_U, EYE_V
from transop_paper.faces.drawing.shapes import (
    bump,
    coverage,
    ellipse,
    glow,
    mix,
    rounded_box,
    soft_step,
    trail,
)


def paint_glasses(canvas: Canvas, sitter: Sitter) -> None:
    """Paint rims, bridge, temples and lenses; sunglasses blacken the lenses."""
    clear, dark = sitter["glasses"], sitter["sunglasses"]
    present = 1.0 - (1.0 - clear) * (1.0 - dark)
    edge = sitter.edge
    u = sitter.u - 0.03 * sitter["yaw"]  # they sit in front of the face
    x, y = u.abs() - EYE_U - 0.006, sitter.v - EYE_V - 0.012
    lens = rounded_box(x, y, 0.128, 0.098, 0.075)
    inside = coverage(lens, edge)
    ink = palette.fixed(0.07, 0.06, 0.08).to(u)
    gradient = 0.97 - 0.18 * soft_step(y, -0.05, 0.12)
    canvas.paint(ink, inside * dark * gradient)
    streak = bump(x + 0.9 * y + 0.03, 0.022) * inside
    canvas.lighten((0.10 * clear + 0.20 * dark) * streak)

    rim = lens.abs() - (0.004 + 0.013 * present)
    bridge = torch.maximum((y + 0.035 + 2.0 * u * u).abs() - 0.014, u.abs() - 0.07)
    temple = torch.maximum((y + 0.035).abs() - 0.014, 0.120 - x)
    temple = torch.maximum(temple, sitter.outline)
    frame = torch.minimum(torch.minimum(rim, bridge), temple)
    below = coverage(frame - 0.01, 2.5 * edge)
    canvas.darken(palette.fixed(0.74, 0.64, 0.62).to(u), 0.4 * below * present)
    canvas.paint(ink + 0.03, coverage(frame, edge) * present**0.6)


def paint_hat(canvas: Canvas, sitter: Sitter) -> None:
    """Paint a knitted hat with cuff and pompom; the factor pulls it down from the crown."""
    hat = sitter["hat"]
    u, v, edge = sitter.u, sitter.v, sitter.edge
    rim = -0.66 + 0.445 * hat + 0.16 * u * u * hat
    dome = torch.maximum(sitter.outline - 0.055 - 0.045 * hat, v - rim)
    lit = 0.55 + 0.55 * light_on(sitter)
    wool = palette.hue(sitter["clothing_hue"] + 0.06, 0.60, 0.70)
    under = trail(v - rim, 0.045) * coverage(sitter.outline, edge)
    canvas.darken(palette.fixed(0.55, 0.45, 0.45).to(u), 0.6 * under * soft_step(hat, 0.0, 0.5))

    top = -HEAD_HEIGHT - 0.095 - 0.045 * hat
    size = 0.004 + 0.096 * soft_step(hat, 0.1, 1.0)
    ball = ellipse(sitter.head_x, v - top, size, size)
    fluff = 0.80 + 0.25 * glow(
        sitter.head_x - 0.05 * sitter["light_direction"], v - top + 0.03, 0.09, 0.09
    )
    light_wool = mix(wool, palette.fixed(0.97, 0.95, 0.92).to(u), 0.75)
    canvas.paint(
        light_wool * fluff.unsqueeze(1), coverage(ball, 2.0 * edge) * soft_step(hat, 0.1, 0.5)
    )
    knit = 1.0 + 0.07 * torch.sin(44.0 * u) * torch.cos(40.0 * v)
    canvas.paint(wool * (lit * knit).unsqueeze(1), coverage(dome, edge))
    tall = 0.135 * soft_step(hat, 0.1, 0.9)
    cuff = torch.maximum(
        sitter.outline - 0.055 - 0.065 * hat, (v - rim + 0.5 * tall).abs() - 0.5 * tall
    )
    ribs = 1.0 + 0.12 * torch.sin(60.0 * u)
    canvas.paint(
        light_wool * (lit * ribs).unsqueeze(1), coverage(cuff, edge) * soft_step(hat, 0.0, 0.3)
    )
