"""Augment uploaded images: a contact sheet and a zip of the copies."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError
from transop_app.explorer.html import png
from transop_app.explorer.opened import ExploredRun

MOST_COPIES = 12
_ON_SHEET = 12


@dataclass(frozen=True)
class Augmented:
    """What augmentation gave: a picture of the first images with their copies, and a zip of all."""

    sheet: bytes
    archive: bytes
    n_images: int
    n_shown: int
    n_copies: int


def augment_images(
    run: ExploredRun,
    images: Mapping[str, Float[Tensor, "c h w"]],
    *,
    n_copies: int,
    multiplier: float,
    seed: int,
) -> Augmented:
    """Move every image at random, several times."""
    if not images:
        raise UserError("there is no image to augment; upload some, or a zip of them")
    if not 1 <= n_copies <= MOST_COPIES:
        raise UserError(f"copies = {n_copies} must be between 1 and {MOST_COPIES}")
    # Imported here: torch's compiler and Matplotlib would delay the page by seconds.
    from transop.augment import TransportAugment
    from transop.plotting import contact_sheet, render_figure

    generator = torch.Generator().manual_seed(seed)
    augment = TransportAugment(run.model, multiplier=multiplier, generator=generator)
    given = torch.stack(list(images.values()))
    copies = torch.stack([augment(given) for _ in range(n_copies)], dim=1)
    everything = torch.cat([given[:, None], copies], dim=1).numpy()
    shown, archive = everything[:_ON_SHEET], _pack(list(images), everything)
    sheet = render_figure(contact_sheet(shown), "png")
    return Augmented(sheet, archive, len(given), len(shown), n_copies)


def _pack(names: list[str], rows: Float[np.ndarray, "n k c h w"]) -> bytes:
    """Write all copies into a zip: ``tom.jpg`` gives ``tom-1.png``, ``tom-2.png`` and so on."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, images in zip(names, rows, strict=True):
            path = PurePosixPath(name)
            stem = path.stem if path.suffix.lower() == ".png" else path.name.replace(".", "-")
            for number, image in enumerate(images[1:], 1):
                archive.writestr(f"{stem}-{number}.png", png(image))
    return buffer.getvalue()
