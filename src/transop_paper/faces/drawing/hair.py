"""Everything that grows: hair, brows, beard and moustache."""

import torch

from transop_paper.faces.drawing import palette
from transop_paper.faces.drawing.easel import HEAD_HEIGHT, Canvas, Sitter, light_on
from transop_paper.faces.drawing.features import EYE_U, MOUTH_V
from transop_paper.faces.drawing.shapes import Field, bump, coverage, soft_step, trail


def _colour(sitter: Sitter) -> palette.Colour:
    return palette.hair(sitter["hair_lightness"], sitter["hair_grayness"])


def _fullness(sitter: Sitter) -> palette.Amount:
    """Tell how much hair is left, from 1 to 0 as baldness advances."""
    return 1.0 - soft_step(sitter["baldness"], 0.25, 1.0)


def _curtain(sitter: Sitter) -> Field:
    """Measure the distance to the hair that hangs at both sides, down to its length."""
    length = sitter["hair_length"] * _fullness(sitter)
    v = sitter.v
    drop = soft_step(v, -0.2, 0.9)
    wave = 0.016 * torch.sin(13.0 * v) * drop
    body = soft_step(length, 0.0, 0.5)
    fall = soft_step(v, -0.40, 0.05)
    half = sitter.half_width - 0.06 + body * (0.14 * fall + 0.05 * drop + wave)
    side = sitter.head_x.abs() - half
    end = v - (1.05 * length - 0.10)
    rounded = end + 5.0 * (sitter.head_x.abs() - 0.34).clamp_min(0.0) ** 2
    return torch.maximum(torch.maximum(side, rounded), -0.30 - v)


def _shell(sitter: Sitter) -> Field:
    """Measure the distance to the head with the volume of its hair added."""
    rise = soft_step(-sitter.v, -0.25, 0.45)
    volume = 0.028 + 0.062 * rise + 0.015 * sitter["hair_length"]
    thick = 1.0 - soft_step(sitter["baldness"], 0.05, 0.7)  # what is left lies flat
    return sitter.outline - volume * thick


def paint_behind(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the hair that falls behind neck and shoulders."""
    strands = 0.52 + 0.05 * torch.sin(52.0 * sitter.head_x)
    opacity = coverage(_curtain(sitter), sitter.edge) * _fullness(sitter)
    canvas.paint(_colour(sitter) * strands.unsqueeze(1), opacity)


def paint_locks(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the locks in front of the shoulders, leaving the neck free."""
    aside = soft_step(sitter.head_x.abs(), 0.20, 0.33)
    strands = 0.82 + 0.09 * torch.sin(52.0 * sitter.head_x + 2.0 * sitter.v)
    lit = 1.0 + 0.14 * torch.tanh(2.0 * sitter.head_x * sitter["light_direction"])
    opacity = coverage(_curtain(sitter), sitter.edge) * aside * _fullness(sitter)
    canvas.paint(_colour(sitter) * (strands * lit).unsqueeze(1), opacity)


def _hairline(sitter: Sitter) -> Field:
    """Place the lower edge of the hair around the head, fringe included."""
    parted = sitter.u - 0.07
    steep = 1.15 + 0.75 * sitter["hair_length"]
    line = -0.345 + steep * parted * parted - 0.80 * sitter["baldness"] ** 1.2
    tips = 0.014 * torch.sin(36.0 * sitter.u) + 0.008 * torch.sin(61.0 * sitter.u + 1.0)
    fringe = -0.150 + 0.20 * sitter.u * sitter.u + tips
    cover = sitter["bangs"] * _fullness(sitter)
    return line + cover * (fringe - line).clamp_min(0.0)


def paint_hair(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the hair on the head, its sheen, and the shadow it throws on the forehead."""
    u, v = sitter.u, sitter.v
    below = v - _hairline(sitter)
    on_head = coverage(_shell(sitter), sitter.edge)
    shadow = trail(below, 0.05) * coverage(sitter.outline, sitter.edge)
    thin = _fullness(sitter) ** 0.5
    canvas.darken(palette.fixed(0.66, 0.54, 0.52).to(u), 0.55 * shadow * thin)

    strands = 0.06 * torch.sin(55.0 * u + 9.0 * v) + 0.05 * torch.sin(23.0 * u - 6.0 * v)
    arc = v + 0.40 - 0.55 * u * u
    lit = light_on(sitter)
    sheen = bump(arc - 0.02 * torch.sin(30.0 * u), 0.075) * lit
    root = 0.16 * trail(below.abs(), 0.05)
    tone = 0.58 + 0.42 * lit + strands - root
    base = _colour(sitter)
    colour = base * tone.unsqueeze(1) + (0.10 + 0.28 * base) * (0.95 * sheen).unsqueeze(1)
    canvas.paint(colour, on_head * coverage(below, 1.3 * sitter.edge) * thin)


def paint_brows(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the eyebrows: arched, tapering outwards, a little raised by a smile."""
    along = sitter.u.abs() - EYE_U
    raised = 0.118 + 0.016 * sitter["smile"] + 0.01 * sitter["mouth_open"]
    arch = sitter.v + raised + 0.10 * along - 2.4 * (along - 0.02) ** 2
    thick = 0.021 - 0.07 * along.clamp(-0.1, 0.15)
    brow = torch.maximum(arch.abs() - thick, along.abs() - 0.115)
    colour = 0.62 * _colour(sitter) + 0.10 * palette.skin(sitter["skin_tone"])
    canvas.paint(colour, 0.9 * coverage(brow, 1.3 * sitter.edge))


def paint_beard(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the beard: first stubble on the jaw, then a body of hair beyond the chin."""
    beard = sitter["beard"]
    spread = sitter.u.abs()
    cheek = soft_step(spread, 0.12, 0.46)
    upper = 0.385 - 0.36 * cheek - 0.10 * bump(spread - 0.20, 0.06)
    below = soft_step(sitter.v - upper, -0.035, 0.05)
    jaw = soft_step(sitter.v, -0.10, 0.30)
    grown = 0.085 * beard**1.5 * soft_step(sitter.v, 0.05, HEAD_HEIGHT)
    area = coverage(sitter.outline - grown, 1.5 * sitter.edge) * below * (0.35 + 0.65 * jaw)
    strands = 0.07 * torch.sin(48.0 * sitter.u) + 0.05 * torch.sin(
        31.0 * sitter.v + 20.0 * sitter.u
    )
    tone = 0.50 + 0.45 * light_on(sitter) + strands * beard
    colour = 0.88 * _colour(sitter) + 0.05 * palette.skin(sitter["skin_tone"])
    canvas.paint(colour * tone.unsqueeze(1), 0.96 * area * beard**0.75)


def paint_moustache(canvas: Canvas, sitter: Sitter) -> None:
    """Paint the moustache: two wings from under the nose to the corners of the mouth."""
    amount = sitter["moustache"]
    u = sitter.u - 0.045 * sitter["yaw"]
    reach = 0.085 + 0.075 * amount
    across = (u.abs() / reach).clamp_max(1.6)
    lift = 0.030 * sitter["smile"]
    spine = MOUTH_V - 0.068 + 0.050 * across**2 - lift * (across**2 - 0.2)
    thick = (0.010 + 0.030 * amount) * (1.0 - 0.75 * across * across) - 0.010 * bump(u, 0.015)
    wings = torch.maximum((sitter.v - spine).abs() - thick, u.abs() - 1.15 * reach)
    tone = 0.60 + 0.35 * light_on(sitter) + 0.08 * torch.sin(55.0 * u)
    colour = 0.85 * _colour(sitter) + 0.03
    opacity = coverage(wings, 1.3 * sitter.edge) * amount**0.6
    canvas.paint(colour * tone.unsqueeze(1), 0.96 * opacity)
