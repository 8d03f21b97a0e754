"""Moving pictures."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from jaxtyping import Float
from PIL import Image

from transop.errors import UserError

_SMALLEST_SIDE = 168  # small images are enlarged by whole factors to about this


def animate(
    frames: Float[np.ndarray, "time channels height width"],
    *,
    seconds_per_frame: float = 0.08,
    there_and_back: bool = True,
) -> bytes:
    """Turn images into an endless GIF, pixels kept crisp.

    Args:
        frames: values in [0, 1], one or three channels.
        seconds_per_frame: rounded to hundredths, as GIF wants it.
        there_and_back: play the frames in reverse too, so that the loop has no jump.

    Returns:
        The bytes of the file.
    """
    if len(frames) == 0 or frames.shape[1] not in (1, 3):
        raise UserError(
            f"frames have shape {frames.shape}; pass (time, channels, height, width) with at "
            "least one frame and 1 or 3 channels"
        )
    factor = max(1, round(_SMALLEST_SIDE / min(frames.shape[2:])))
    bytes_ = np.rint(np.clip(frames, 0, 1) * 255).astype(np.uint8)
    large = bytes_.repeat(factor, axis=2).repeat(factor, axis=3)
    pictures = [Image.fromarray(f[0] if len(f) == 1 else f.transpose(1, 2, 0)) for f in large]
    if there_and_back:
        pictures += pictures[-2:0:-1]
    buffer = BytesIO()
    pictures[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=max(10, round(seconds_per_frame * 100) * 10),
        loop=0,
    )
    return buffer.getvalue()
