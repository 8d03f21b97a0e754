"""What surrounds the face: background, neck, clothes, and the overall exposure."""

import torch
from jaxtyping import Float
from torch import Tensor

from transop_paper.faces.drawing import palette
from transop_paper.faces.drawing.easel import Canvas, Sitter
from transop_paper.faces.drawing.shapes import bump, coverage, ellipse, glow, soft_step


def background(sitter: Sitter) -> Float[Tensor, "faces 3 h w"]:
    """Paint a soft backdrop, brighter on the side the light comes from."""
    level = 0.20 + 0.60 * sitter["background_level"]
    colour = palette.hue(sitter["background_hue"], 0.26, level)
    lamp = 0.55 * sitter["light_direction"]
    halo = glow(sitter.x - lamp, sitter.y + 0.35, 1.1, 1.1)
    floor = soft_step(sitter.y, -0.2, 1.3)
    return colour * (0.80 + 0.34 * halo - 0.16 * floor).unsqueeze(1)


def paint_body(canvas: Canvas, sitter: Sitter) -> None:
    """Paint shoulders, collar and neck, with the shadow the chin throws."""
    x, y = sitter.x, sitter.y
    skin = palette.skin(sitter["skin_tone"])
    shade = _sideways_light(sitter)

    spread = x.abs()
    shoulder = 0.585 + 0.34 * (spread - 0.12).clamp_min(0.0) ** 1.6 - y
    cloth = palette.hue(sitter["clothing_hue"], 0.50, 0.66)
    folds = 1.0 - 0.16 * bump(spread - 0.62, 0.10) - 0.10 * soft_step(y, 0.7, 1.1)
    canvas.paint(cloth * (shade * folds).unsqueeze(1), coverage(shoulder, 2.0 * sitter.edge))

    flare = 0.165 + 0.9 * (y - 0.50).clamp_min(0.0) ** 2
    neck = torch.maximum(spread - flare, ellipse(x, y - 0.40, 0.40, 0.34))
    neck = torch.maximum(neck, 0.15 - y)
    canvas.paint(skin * (0.93 * shade).unsqueeze(1), coverage(neck, sitter.edge))
    collar = ellipse(x, y - 0.545, 0.27, 0.215).abs() - 0.022
    below = soft_step(y, 0.59, 0.67)
    canvas.darken(palette.fixed(0.72, 0.72, 0.74).to(skin), coverage(collar, sitter.edge) * below)
    chin = coverage(sitter.outline - 0.10, 0.16) * coverage(neck, sitter.edge)
    canvas.darken(palette.fixed(0.62, 0.50, 0.48).to(skin), 0.85 * chin)


def _sideways_light(sitter: Sitter) -> Float[Tensor, "faces h w"]:
    """Shade the body from the lit side to the dark side."""
    return 0.90 + 0.16 * torch.tanh(1.6 * sitter.x * sitter["light_direction"]) + 0.0 * sitter.y


def expose(canvas: Canvas, sitter: Sitter) -> Float[Tensor, "faces 3 h w"]:
    """Set the overall brightness and keep values between 0 and 1."""
    exposure = 0.72 + 0.34 * sitter["light_level"]
    return canvas.image.mul_(exposure.unsqueeze(1)).clamp_(0.0, 1.0)
