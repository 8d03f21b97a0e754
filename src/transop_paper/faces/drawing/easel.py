"""Where things are: the picture's coordinates, the posed head, and the paint on the canvas.

Picture units: a head is a little over 1 high; x points right, y down. The head is an egg-shaped
surface; every pixel is looked up on it, so that features placed in face coordinates
(u across, v down, both in picture units) turn with the head and foreshorten by themselves.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from transop_paper.faces.drawing.palette import Amount, Colour
from transop_paper.faces.drawing.shapes import Field, ellipse

MOST_YAW = 0.45  # radians
MOST_TILT = 0.24  # radians
HEAD_HEIGHT = 0.56  # half of it, picture units
_VIEW = 0.79  # half of the picture's width
_VIEW_Y = -0.055  # the picture's middle
_HEAD_Y = -0.03
_NECK_Y = 0.50  # the head leans around this point


@dataclass
class Sitter:
    """A batch of posed heads over the pixel grid, all fields (faces, height, width)."""

    factors: dict[str, Amount]
    edge: float  # width of an anti-aliased edge, picture units
    x: Field  # picture coordinates, without the batch axis
    y: Field
    head_x: Field  # upright head coordinates
    v: Field  # also the vertical face coordinate
    u: Field  # face coordinate: arc length around the head from the nose
    normal: tuple[Field, Field, Field]  # of the head's surface, towards right, down, viewer
    outline: Field  # signed distance to the head's outline
    half_width: Amount  # of the head

    def __getitem__(self, name: str) -> Amount:
        """Look up a factor, shaped to broadcast over the picture."""
        return self.factors[name]


def pose(factors: dict[str, Amount], height: int, width: int) -> Sitter:
    """Turn and lean the heads, and look up every pixel on them."""
    device = factors["yaw"].device
    pixel = 2.0 * _VIEW / width
    x = (torch.arange(width, device=device) + 0.5 - width / 2) * pixel
    y = (torch.arange(height, device=device) + 0.5 - height / 2) * pixel + _VIEW_Y
    x, y = x.view(1, 1, -1), y.view(1, -1, 1)

    lean, turn = MOST_TILT * factors["tilt"], MOST_YAW * factors["yaw"]
    cosine, sine = torch.cos(lean), torch.sin(lean)
    head_x = cosine * x + sine * (y - _NECK_Y) - 0.04 * factors["yaw"]
    v = cosine * (y - _NECK_Y) - sine * x + (_NECK_Y - _HEAD_Y)

    half_width = 0.385 + 0.085 * factors["face_width"]
    depth = (v / HEAD_HEIGHT).clamp(0.0, 1.1)
    jaw_x = head_x - 0.10 * turn * depth  # the chin leads the turn
    taper = 0.36 - 0.36 * factors["jaw"] - 0.04 * factors["face_width"]
    row_width = half_width * (1.0 - taper * depth * depth)
    right, down = jaw_x / row_width, v / HEAD_HEIGHT
    front = torch.sqrt((1.0 - right * right - down * down).clamp_min(1e-4))
    on_head = right.clamp(-1.0, 1.0)
    beyond = right - on_head  # beside the head u simply goes on
    u = half_width * (torch.asin(on_head) - turn + beyond)
    outline = ellipse(jaw_x, v, row_width, HEAD_HEIGHT * torch.ones_like(turn))
    return Sitter(
        factors=factors,
        edge=max(pixel, 0.012),
        x=x,
        y=y,
        head_x=head_x,
        v=v,
        u=u,
        normal=(right, down, front),
        outline=outline,
        half_width=half_width,
    )


@dataclass(frozen=True)
class Window:
    """A part of the picture, in picture units, outside which a layer has nothing to paint."""

    left: float
    right: float
    top: float
    bottom: float


def look_at(canvas: "Canvas", sitter: Sitter, window: Window) -> tuple["Canvas", Sitter]:
    """Narrow canvas and sitter to a window; painting there shows on the whole canvas."""
    margin = 2.0 * sitter.edge  # coarse pixels blur edges further out
    columns = _inside(sitter.x.flatten(), window.left - margin, window.right + margin)
    rows = _inside(sitter.y.flatten(), window.top - margin, window.bottom + margin)

    def crop(field: Field) -> Field:
        return field[..., rows, columns]

    right, down, front = sitter.normal
    narrowed = replace(
        sitter,
        x=sitter.x[..., columns],
        y=sitter.y[:, rows],
        head_x=crop(sitter.head_x),
        v=crop(sitter.v),
        u=crop(sitter.u),
        normal=(crop(right), crop(down), crop(front)),
        outline=crop(sitter.outline),
    )
    return Canvas(crop(canvas.image)), narrowed


def _inside(positions: Float[Tensor, " n"], low: float, high: float) -> slice:
    """Give the range of pixels between two positions."""
    return slice(int((positions < low).sum()), int((positions <= high).sum()))


class Canvas:
    """A batch of pictures that is painted over layer by layer."""

    def __init__(self, image: Float[Tensor, "faces 3 h w"]) -> None:
        self.image = image

    def paint(self, colour: Colour | Float[Tensor, "faces 3 h w"], opacity: Field) -> None:
        """Lay a colour over the picture where the opacity says."""
        self.image.lerp_(colour.expand_as(self.image), opacity.unsqueeze(1))

    def darken(self, tint: Colour, opacity: Field) -> None:
        """Multiply the picture by a tint where the opacity says, as a shadow does."""
        self.image.mul_(1.0 + opacity.unsqueeze(1) * (tint - 1.0))

    def lighten(self, amount: Field) -> None:
        """Add white light."""
        self.image.add_(amount.unsqueeze(1))


def light_on(sitter: Sitter) -> Field:
    """Tell how lit the head's surface is: about 1 facing the lamp, near 0 turned away."""
    right, down, front = sitter.normal
    angle = 0.9 * sitter["light_direction"]
    lamp_x, lamp_y, lamp_z = torch.sin(angle) * 0.85, -0.42, torch.cos(angle) * 0.85
    norm = math.sqrt(0.85**2 + 0.42**2)
    facing = (right * lamp_x + down * lamp_y + front * lamp_z) / norm
    return (0.5 + 0.5 * facing).clamp(0.0, 1.0)
