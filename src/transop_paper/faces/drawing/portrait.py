"""The order of painting: from the background to the hat."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from transop_paper.faces.drawing import accessories, features, hair, scene
from transop_paper.faces.drawing.easel import Canvas, Sitter, Window, look_at, pose
from transop_paper.faces.drawing.factors import FACTOR_NAMES

LAYERS: tuple[tuple[Callable[[Canvas, Sitter], None], Window], ...] = (
    (hair.paint_behind, Window(-0.72, 0.72, -0.44, 9.0)),
    (scene.paint_body, Window(-9.0, 9.0, 0.14, 9.0)),
    (hair.paint_locks, Window(-0.72, 0.72, -0.44, 9.0)),
    (features.paint_ears, Window(-0.64, 0.64, -0.24, 0.25)),
    (features.paint_head, Window(-0.66, 0.66, -0.60, 0.57)),
    (features.paint_nose, Window(-0.55, 0.55, -0.20, 0.32)),
    (features.paint_eyes, Window(-0.61, 0.61, -0.26, 0.18)),
    (hair.paint_beard, Window(-0.64, 0.64, -0.15, 0.67)),
    (features.paint_mouth, Window(-0.55, 0.55, 0.02, 0.61)),
    (hair.paint_moustache, Window(-0.52, 0.52, 0.08, 0.40)),
    (hair.paint_brows, Window(-0.62, 0.62, -0.29, 0.05)),
    (hair.paint_hair, Window(-0.75, 0.75, -0.71, 0.52)),
    (accessories.paint_glasses, Window(-0.68, 0.68, -0.28, 0.25)),
    (accessories.paint_hat, Window(-0.77, 0.77, -0.86, 0.20)),
)
CHUNK = 32  # faces painted together: their fields stay in the processor's cache


def draw_faces(
    factors: Float[Tensor, "faces factors"], size: int | tuple[int, int] = 64
) -> Float[Tensor, "faces 3 h w"]:
    """Paint faces from their factors.

    Args:
        factors: one row per face, columns in the order of ``FACTOR_NAMES``.
        size: side of a square picture, or (height, width) in pixels.

    Returns:
        RGB pictures with values from 0 to 1.
    """
    height, width = (size, size) if isinstance(size, int) else size
    pictures = torch.empty(len(factors), 3, height, width, device=factors.device)
    for start in range(0, len(factors), CHUNK):
        part = factors[start : start + CHUNK]
        pictures[start : start + CHUNK] = _draw_chunk(part, height, width)
    return pictures


@torch.no_grad()
def _draw_chunk(
    factors: Float[Tensor, "faces factors"], height: int, width: int
) -> Float[Tensor, "faces 3 h w"]:
    columns = factors.float().unbind(1)
    named = {
        name: column.view(-1, 1, 1) for name, column in zip(FACTOR_NAMES, columns, strict=True)
    }
    sitter = pose(named, height, width)
    canvas = Canvas(scene.background(sitter))
    for paint, window in LAYERS:
        paint(*look_at(canvas, sitter, window))
    return scene.expose(canvas, sitter)
