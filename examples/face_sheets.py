"""Draw the two sheets of docs/faces.md: random faces, and every factor over its range.

Run: python examples/face_sheets.py docs/pictures
"""

import sys
from pathlib import Path

import torch

from transop.plotting import image_grid, render_figure
from transop_paper.faces.drawing import (
    FACTOR_NAMES,
    FACTORS,
    draw_faces,
    neutral_face,
    sample_factors,
)

ROWS, COLUMNS, STEPS = 6, 14, 7


def random_faces() -> torch.Tensor:
    """Draw a sheet of random faces."""
    factors = sample_factors(ROWS * COLUMNS, generator=torch.Generator().manual_seed(8))
    return draw_faces(factors, 64).unflatten(0, (ROWS, COLUMNS))


def traversals() -> torch.Tensor:
    """Draw one row per factor, everything else at rest."""
    rows = neutral_face().repeat(len(FACTORS), STEPS, 1)
    for i, factor in enumerate(FACTORS):
        rows[i, :, i] = torch.linspace(factor.low, factor.high, STEPS)
    return draw_faces(rows.flatten(0, 1), 64).unflatten(0, (len(FACTORS), STEPS))


def main() -> None:
    """Write both sheets into the folder given."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    sheet = image_grid(random_faces().numpy())
    (folder / "faces-random.png").write_bytes(render_figure(sheet, "png"))
    names = [name.replace("_", " ") for name in FACTOR_NAMES]
    sheet = image_grid(traversals().numpy(), row_labels=names)
    (folder / "faces-factors.png").write_bytes(render_figure(sheet, "png"))
    print(f"wrote faces-random.png and faces-factors.png into {folder}")


if __name__ == "__main__":
    main()
