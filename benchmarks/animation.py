"""Draw the animation of the README: images moving along the operators of a trained run.

    python benchmarks/animation.py runs/mnist docs/pictures/animation.webp

Each row is one operator, each column the most typical held-out image of a class. Every image swings
to both sides, as far as 19 of 20 random moves of this operator would take it: the range that the
coefficient encoder learned for it. The operators are those that may move images farthest.
"""

from __future__ import annotations

import argparse
import math
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image

import transop
from transop.artifacts import write_atomically
from transop.evaluation import measure_invariance
from transop.plotting import compose_grid

RANGE = math.log(20)  # of 20 draws from a Laplace distribution 19 are below so many scales
FRAMES, MILLISECONDS = 48, 60
ENLARGED, GAP = 2, 2  # how many times, and pixels between images
QUALITY = 60


def swing(
    run: transop.Run, n_operators: int, n_frames: int = FRAMES
) -> Float[np.ndarray, "frames rows columns channels height width"]:
    """Move typical images of all classes to and fro along the operators that move them farthest."""
    model, found = run.model, measure_invariance(run.model, run.dataset)
    farthest = np.argsort(-np.nanmean(found.moves, axis=0), kind="stable")[:n_operators]
    images = run.dataset.batch(found.examples[found.examples >= 0])
    points, scales = model.encode(images), model.coefficient_scales(images)
    phases = torch.sin(torch.arange(n_frames) * (2 * math.pi / n_frames))
    coefficients = torch.zeros(n_frames, len(farthest), len(points), model.operators.n_operators)
    for row, column in enumerate(farthest):
        operator = found.operators[column]
        coefficients[:, row, :, operator] = RANGE * phases[:, None] * scales[:, operator]
    moved = model.transport(coefficients, points.expand(*coefficients.shape[:3], -1))
    return model.decode(moved).numpy()


def animate(frames: Float[np.ndarray, "frames rows columns channels height width"]) -> bytes:
    """Turn grids of images into the bytes of an endless WebP animation."""
    pages = []
    for grid in frames:
        canvas = Image.fromarray((compose_grid(grid, gap=GAP) * 255).round().astype(np.uint8))
        size = (canvas.width * ENLARGED, canvas.height * ENLARGED)
        pages.append(canvas.resize(size, Image.Resampling.BICUBIC))
    buffer = BytesIO()
    loop = {"append_images": pages[1:], "duration": MILLISECONDS, "loop": 0}
    pages[0].save(buffer, "WEBP", save_all=True, quality=QUALITY, method=6, **loop)
    return buffer.getvalue()


def main() -> int:
    """Draw the animation of one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run folder with a coefficient encoder")
    parser.add_argument("out", type=Path, help="a .webp file")
    parser.add_argument("--operators", type=int, default=5, help="how many rows")
    wanted = parser.parse_args()
    picture = animate(swing(transop.Run.open(wanted.run), wanted.operators))
    write_atomically(wanted.out, picture)
    print(f"{wanted.out}: {len(picture):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
