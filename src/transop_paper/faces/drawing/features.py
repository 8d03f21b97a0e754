"""Head, ears, eyes, nose and mouth."""

import torch

from transop_paper.faces.drawing import palette
from transop_paper.faces.drawing.easel import MOST_YAW, Canvas, Sitter, light_on
from transop_paper.faces.drawing.shapes import (
    Field,
    bump,
    coverage,
    ellipse,
    glow,
    mix,
    soft_step,
)

EYE_U, EYE_V = 0.178, -0.015
MOUTH_V = 0.305
SHADOW = (0.60, 0.44, 0.42)  # shaded skin keeps more red than blue


def paint_head(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the shaded skin of the head, with warm cheeks."""
    skin = palette.skin(sitter["skin_tone"])
    shadow = skin * palette.fixed(*SHADOW).to(skin)
    lit = soft_step(light_on(sitter), 0.18, 0.90)
    colour = shadow + (1.06 * skin - shadow) * lit.unsqueeze(1)
    canvas.paint(colour, coverage(sitter.outline, sitter.edge))
    cheeks = glow(sitter.u.abs() - 0.25, sitter.v - 0.16, 0.12, 0.10)
    strength = 0.16 + 0.24 * sitter["smile"]
    canvas.darken(palette.fixed(1.0, 0.72, 0.70).to(skin), cheeks * strength)
    sockets = glow(sitter.u.abs() - EYE_U, sitter.v - EYE_V + 0.045, 0.12, 0.075)
    canvas.darken(palette.fixed(0.78, 0.66, 0.64).to(skin), 0.55 * sockets)


def paint_ears(canvas: Canvas, sitter: Sitter) -> None:
    """Paint both ears; turning the head hides the far one behind it."""
    skin = palette.skin(sitter["skin_tone"])
    turn = MOST_YAW * sitter["yaw"]
    for side in (-1.0, 1.0):
        hidden = 0.13 * torch.nn.functional.softplus(side * turn * 9.0) / 9.0 * 2.0
        centre = side * (sitter.half_width + 0.012 - hidden)
        x = (sitter.head_x - centre) * side
        ear = ellipse(x - 0.12 * (sitter.v - 0.02), sitter.v - 0.02, 0.062, 0.115)
        tone = 0.90 + 0.10 * side * sitter["light_direction"]
        canvas.paint(skin * tone.unsqueeze(1), coverage(ear, sitter.edge))
        inner = glow(x + 0.005, sitter.v - 0.02, 0.030, 0.065)
        canvas.darken(palette.fixed(*SHADOW).to(skin), 0.6 * inner)


def paint_nose(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the nose as light and shadow; its tip stands out, so it moves ahead of the turn."""
    u, v = sitter.u, sitter.v
    tip = soft_step(v, -0.05, 0.16)
    u = u - 0.085 * sitter["yaw"] * tip
    lamp = sitter["light_direction"]
    shadow = palette.fixed(0.70, 0.56, 0.54).to(u)
    length = soft_step(v, -0.10, 0.04) * (1.0 - soft_step(v, 0.15, 0.22))
    width = 0.038 + 0.03 * tip
    canvas.darken(shadow, (0.30 + 0.30 * lamp) * length * bump(u + 0.055 + 0.015 * tip, width))
    canvas.darken(shadow, (0.30 - 0.30 * lamp) * length * bump(u - 0.055 - 0.015 * tip, width))
    under = bump(v - 0.175 + 2.5 * u * u, 0.026) * bump(u, 0.085)
    canvas.darken(palette.fixed(0.60, 0.42, 0.40).to(u), 0.75 * under)
    nostrils = glow(u.abs() - 0.040, v - 0.168, 0.022, 0.014)
    canvas.darken(palette.fixed(0.30, 0.18, 0.18).to(u), 0.75 * nostrils)
    canvas.lighten(0.13 * glow(u - 0.012 * lamp, v - 0.125, 0.032, 0.040))
    canvas.lighten(0.05 * bump(u - 0.008 * lamp, 0.022) * length)


def paint_eyes(canvas: Canvas, sitter: Sitter) -> None:
    """Paint both eyes: white, iris, pupil, glint and lids; a smile narrows them."""
    u, v = sitter.u.abs() - EYE_U, sitter.v - EYE_V
    edge = sitter.edge
    opening = 0.070 - 0.014 * sitter["smile"]
    curve = 1.0 - (u / 0.106) ** 2
    tilt = -0.10 * u
    upper = (v - tilt) + opening * curve
    lower = (v - tilt) - (0.78 * opening - 0.012 * sitter["smile"]) * curve
    eye = torch.maximum(-upper, lower)
    inside = coverage(eye, edge) * coverage(-curve * 0.106, edge)
    white = 0.97 - 0.30 * bump(upper, 0.035)
    canvas.paint(palette.fixed(0.97, 0.96, 0.95).to(u) * white.unsqueeze(1), inside)
    gaze = sitter.u - torch.sign(sitter.u) * EYE_U
    radius = torch.sqrt(gaze * gaze + (v + 0.004) ** 2)
    iris = palette.iris(sitter["hair_lightness"])
    canvas.paint(iris, coverage(radius - 0.054, edge) * inside)
    canvas.paint(0.25 * iris, coverage(radius - 0.026, edge) * inside)
    canvas.paint(
        palette.fixed(1.0, 1.0, 1.0).to(u),
        0.9 * glow(gaze - 0.018, v + 0.022, 0.014, 0.014) * inside,
    )
    lash = coverage(upper.abs() - 0.013 * curve.clamp_min(0.15), edge) * soft_step(
        curve, -0.35, 0.1
    )
    canvas.paint(palette.fixed(0.10, 0.06, 0.06).to(u), 0.85 * lash)
    crease = bump(upper + 0.032, 0.012) * soft_step(curve, 0.0, 0.4)
    canvas.darken(palette.fixed(0.70, 0.52, 0.50).to(u), 0.45 * crease)
    bag = bump(lower - 0.018, 0.016) * soft_step(curve, 0.0, 0.5)
    canvas.darken(palette.fixed(0.80, 0.66, 0.64).to(u), (0.25 + 0.25 * sitter["smile"]) * bag)


def _mouth_lines(sitter: Sitter) -> tuple[Field, Field, Field, Field]:
    """Place the mouth: across it from -1 to 1, its fullness, and the lips' inner edges."""
    smile = 1.7 * sitter["smile"] - 0.55
    half_width = 0.135 + 0.055 * sitter["smile"] - 0.015 * sitter["mouth_open"]
    across = (sitter.u - 0.035 * sitter["yaw"]) / half_width
    fullness = (1.0 - across * across).clamp_min(0.0)
    middle = MOUTH_V + smile * (0.030 - 0.066 * across.clamp(-1.2, 1.2) ** 2)
    gap = 0.115 * sitter["mouth_open"]
    top = middle - (0.30 * gap) * fullness
    bottom = middle + (0.85 * gap) * fullness
    return across, fullness, top, bottom


def paint_mouth(canvas: Canvas, sitter: Sitter) -> None:
    """Paint lips, the dark of an open mouth, teeth, and dimples at the corners of a smile."""
    v, edge = sitter.v, sitter.edge
    across, fullness, top, bottom = _mouth_lines(sitter)
    skin = palette.skin(sitter["skin_tone"])
    lips = palette.lips(skin, sitter["lipstick"])
    ends = coverage((across.abs() - 1.0) * 0.13, edge)
    bow = 0.036 * fullness.sqrt() * (1.0 - 0.30 * bump(across, 0.18))
    upper_lip = torch.maximum(top - bow - v, v - bottom)
    lower_lip = torch.maximum(v - bottom - 0.050 * fullness.sqrt(), top - v)
    canvas.darken(
        palette.fixed(0.66, 0.52, 0.50).to(skin),
        0.5 * bump(v - bottom - 0.075, 0.022) * bump(across, 0.7),
    )
    canvas.paint(lips, coverage(lower_lip, edge) * ends)
    canvas.paint(0.84 * lips, coverage(upper_lip, edge) * ends * coverage(v - top, edge))
    gleam = glow(across - 0.25 * sitter["light_direction"], v - bottom - 0.02, 0.35, 0.012)
    canvas.lighten((0.06 + 0.12 * sitter["lipstick"]) * gleam)

    inside = coverage(torch.maximum(top - v, v - bottom), edge) * ends
    canvas.paint(palette.fixed(0.23, 0.05, 0.07).to(skin), inside)
    depth = bottom - top
    teeth = coverage(v - top - 0.42 * depth, edge) * soft_step(depth, 0.012, 0.05) * inside
    canvas.paint(palette.fixed(0.96, 0.94, 0.90).to(skin), teeth)
    tongue = glow(across, v - bottom, 0.55, 0.030) * soft_step(depth, 0.03, 0.08) * inside
    canvas.paint(palette.fixed(0.70, 0.25, 0.27).to(skin), 0.8 * tongue)

    seam = bump(v - mix(top, bottom, 0.2), 0.011) * coverage((across.abs() - 1.02) * 0.13, 2 * edge)
    closed = 1.0 - soft_step(depth, 0.01, 0.04)
    canvas.darken(palette.fixed(0.36, 0.20, 0.20).to(skin), 0.9 * seam * closed)
    dimples = glow((across.abs() - 1.12) * 0.13, v - top, 0.022, 0.036)
    canvas.darken(
        palette.fixed(0.62, 0.46, 0.44).to(skin), (0.15 + 0.6 * sitter["smile"]) * dimples
    )
