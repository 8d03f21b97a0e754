"""Faces: drawn portraits with known factors.

They stand in for CelebA where it cannot be had, and because the factors behind every picture
are known, they also show which factor a learned operator moves.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int8, UInt8

from transop.artifacts import map_rows, write_rows
from transop.data import (
    DatasetMeta,
    DatasetRequest,
    ImageDataset,
    conform,
    consecutive_splits,
    split_sizes,
)
from transop.errors import DataError
from transop.progress import Progress, silent
from transop_paper.celeba import CELEBA_ATTRIBUTES, SIXTEEN_ATTRIBUTES
from transop_paper.faces import drawing
from transop_paper.faces.drawing import FACTOR_NAMES, draw_faces, sample_factors

DEFAULT_FACES = 20_000
DEFAULT_SIZE = 64
_BLOCK = 256


def face_attributes(
    factors: Float[np.ndarray, "faces factors"],
) -> Int8[np.ndarray, "faces 40"]:
    """Derive CelebA's 40 attributes (-1 or 1) from factors by thresholds.

    The 16 of ``SIXTEEN_ATTRIBUTES`` follow the picture; the other 24 have no counterpart in a
    drawing and are -1 everywhere.
    """
    attributes = np.full((len(factors), len(CELEBA_ATTRIBUTES)), -1, dtype=np.int8)
    for name, holds in _sixteen(factors).items():
        attributes[holds, CELEBA_ATTRIBUTES.index(name)] = 1
    return attributes


def _sixteen(
    factors: Float[np.ndarray, "faces factors"],
) -> dict[str, Bool[np.ndarray, " faces"]]:
    """Decide the 16 attributes; what a hat or a bald head hides does not count."""
    f = dict(zip(FACTOR_NAMES, factors.T, strict=True))
    hairless = f["baldness"] > 0.6
    coloured = ~hairless & (f["hair_grayness"] < 0.5)
    lightness, beard = f["hair_lightness"], f["beard"]
    glasses = 1.0 - (1.0 - f["glasses"]) * (1.0 - f["sunglasses"])
    holds = {
        "5_o_Clock_Shadow": (beard >= 0.15) & (beard < 0.5),
        "Bald": hairless & (f["hat"] < 0.5),
        "Bangs": (f["bangs"] > 0.5) & (f["baldness"] < 0.5),
        "Black_Hair": coloured & (lightness < 0.28),
        "Blond_Hair": coloured & (lightness > 0.65),
        "Brown_Hair": coloured & (lightness >= 0.28) & (lightness <= 0.65),
        "Chubby": f["face_width"] > 0.7,
        "Eyeglasses": glasses > 0.5,
        "Gray_Hair": ~hairless & (f["hair_grayness"] >= 0.5),
        "Mouth_Slightly_Open": f["mouth_open"] > 0.35,
        "Mustache": f["moustache"] > 0.4,
        "No_Beard": beard < 0.15,
        "Pale_Skin": f["skin_tone"] > 0.75,
        "Smiling": f["smile"] > 0.5,
        "Wearing_Hat": f["hat"] > 0.4,
        "Wearing_Lipstick": f["lipstick"] > 0.5,
    }
    assert set(holds) == set(SIXTEEN_ATTRIBUTES)
    return holds


def generate_faces(
    n_images: int = DEFAULT_FACES, *, seed: int = 0, image_size: int = DEFAULT_SIZE
) -> ImageDataset:
    """Draw faces straight into memory, with their factors and attributes.

    The same seed and number give the same faces. They are split 80/10/10 in order.
    """
    factors = sample_rows(n_images, seed)
    images = np.concatenate(list(draw_blocks(factors, image_size, silent)))
    return _dataset(images, factors, f"drawn with seed {seed}")


def load_faces(request: DatasetRequest) -> ImageDataset:
    """Load drawn faces: 20,000 portraits, 64 x 64, colour, with factors; drawn once, then cached.

    Options: ``n_images``.
    """
    request.refuse_options("faces", ("n_images",))
    n_images = request.options.get("n_images", DEFAULT_FACES)
    size = request.image_size or DEFAULT_SIZE
    factors = sample_rows(n_images, request.seed)
    name = f"{n_images}-{size}px-seed{request.seed}-{_drawing_fingerprint()}"
    folder = request.cache_dir / "faces" / name
    images, _ = map_rows(folder) or write_rows(folder, draw_blocks(factors, size, request.progress))
    images = conform(images, crop=request.crop)
    return _dataset(images, factors, f"drawn with seed {request.seed}")


def sample_rows(n_images: Any, seed: int) -> Float[np.ndarray, "n f"]:
    """Draw the factors of so many faces, one row each."""
    if isinstance(n_images, bool) or not isinstance(n_images, int) or n_images < 1:
        raise DataError(f"n_images={n_images!r} is impossible; use a whole number from 1")
    generator = torch.Generator().manual_seed(seed)
    return sample_factors(n_images, generator=generator).numpy()


def draw_blocks(
    factors: Float[np.ndarray, "n f"], size: int | tuple[int, int], progress: Progress
) -> Iterator[UInt8[np.ndarray, "block 3 h w"]]:
    """Draw the faces block by block as bytes."""
    starts = range(0, len(factors), _BLOCK)
    for start in progress(starts, "drawing faces", len(starts)):
        pictures = draw_faces(torch.from_numpy(factors[start : start + _BLOCK]), size)
        yield pictures.mul_(255.0).add_(0.5).to(torch.uint8).numpy()


def _dataset(
    images: UInt8[np.ndarray, "n 3 s s"], factors: Float[np.ndarray, "n f"], source: str
) -> ImageDataset:
    return ImageDataset(
        images=images,
        labels=None,
        splits=consecutive_splits(split_sizes(len(images))),
        meta=DatasetMeta(
            "faces", source, attribute_names=CELEBA_ATTRIBUTES, factor_names=FACTOR_NAMES
        ),
        attributes=face_attributes(factors),
        factors=factors,
    )


def _drawing_fingerprint() -> str:
    """Fingerprint the drawing code, so that cached pictures never outlive a change to it."""
    digest = hashlib.sha256()
    for path in sorted(Path(drawing.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
