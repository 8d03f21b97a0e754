"""Augment a folder of image files into another folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from transop.data import EXTENSIONS, UnreadablePicture, read_picture
from transop.errors import DataError, UserError
from transop.files import make_folder, open_regular, real_path
from transop.inputs import check_path, check_whole
from transop.progress import Progress, silent

if TYPE_CHECKING:
    from transop.augment import TransportAugment

_AT_ONCE = 250  # images decoded by the network at once
_SHOWN = 12  # originals on the contact sheet
_WRITTEN = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".tga"))
_DEEP_MODES = ("I", "F")  # 16 and 32 bits per pixel
_JPEG_QUALITY = 95


@dataclass
class FolderReport:
    """What became of a folder."""

    n_images: int = 0
    n_written: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)  # file to reason
    shown: list[Float[np.ndarray, "k c h w"]] = field(default_factory=list)  # original, then copies


@dataclass(frozen=True)
class _File:
    relative: Path
    mode: str
    image: Float[Tensor, "c h w"]


def augment_folder(
    augment: TransportAugment,
    source: Path,
    target: Path,
    *,
    n_copies: int = 1,
    overwrite: bool = False,
    progress: Progress = silent,
) -> FolderReport:
    """Write augmented copies of every image below a folder, class folders and names kept.

    ``cats/tom.png`` becomes ``cats/tom-1.png``, ``cats/tom-2.png`` and so on, with the colour
    mode of the original and the size the model works at.

    Args:
        augment: what to do to the images.
        source: the folder to read; links are not followed.
        target: the folder to write, which must be new or empty and not lie inside ``source``.
        n_copies: copies of each image.
        overwrite: write into a folder that has files already, over those of the same name.
        progress: announces long work.
    """
    source, target = check_path("source", source), check_path("target", target)
    _check_folders(source, target, overwrite=overwrite)
    n_copies = check_whole("n", n_copies, least=1)
    files, report = list(_image_files(source)), FolderReport()
    if not files:
        raise DataError(f"folder '{source}' contains no image files")
    for batch in _batches(augment, source, progress(files, "augmenting", len(files)), report):
        copies = [augment(torch.stack([file.image for file in batch])) for _ in range(n_copies)]
        for position, file in enumerate(batch):
            images = torch.stack([copy[position] for copy in copies]).numpy()
            for number, image in enumerate(images, 1):
                _write(target, file, image, number)
            report.n_images += 1
            report.n_written += n_copies
            if len(report.shown) < _SHOWN:
                report.shown.append(np.concatenate([file.image.numpy()[None], images]))
    if not report.n_images:
        first, reason = next(iter(report.unreadable.items()))
        raise DataError(f"no file in '{source}' is readable; the first, '{first}': {reason}")
    return report


def _check_folders(source: Path, target: Path, *, overwrite: bool) -> None:
    if not source.is_dir():
        raise DataError(f"'{source}' is not a folder of images")
    if target.exists() and not target.is_dir():
        raise UserError(f"'{target}' is a file; choose a folder")
    if real_path(target).is_relative_to(real_path(source)):
        raise UserError(
            f"'{target}' lies inside '{source}' and would be augmented with it; choose another"
        )
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise UserError(
            f"'{target}' is not empty; choose another folder, or write over it with --force"
        )


def _image_files(source: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(source):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in EXTENSIONS:
                yield (Path(folder) / name).relative_to(source)


def _batches(
    augment: TransportAugment, source: Path, files: Iterator[Path], report: FolderReport
) -> Iterator[Sequence[_File]]:
    """Read files into batches, noting down those that cannot be read."""
    channels, size, _ = augment.model.image_shape
    batch: list[_File] = []
    for relative in files:
        try:
            with open_regular(source / relative) as stream:
                pixels = read_picture(stream, size, channels)
                stream.seek(0)
                mode = Image.open(stream).mode
        except (UnreadablePicture, OSError) as error:
            report.unreadable[str(relative)] = str(error)
            continue
        batch.append(_File(relative, mode, torch.from_numpy(pixels.copy()).float() / 255))
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _write(target: Path, file: _File, image: Float[np.ndarray, "c h w"], number: int) -> None:
    """Encode a copy in the mode and, where it can be written, the format of its original."""
    suffix, stem = file.relative.suffix, file.relative.stem
    is_deep = file.mode.startswith(_DEEP_MODES)
    if suffix.lower() not in _WRITTEN or (is_deep and suffix.lower() != ".png"):
        stem, suffix = file.relative.name, ".png"  # the old ending stays: tom.jp2-1.png
    path = target / file.relative.with_name(f"{stem}-{number}{suffix}")
    pixels = np.rint(image.clip(0, 1) * 255).astype(np.uint8)
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    if is_deep:
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    elif picture.mode != file.mode:
        picture = picture.convert("RGB").convert(file.mode)
    buffer = BytesIO()
    kind = Image.registered_extensions()[suffix.lower()]
    picture.save(buffer, format=kind, **({"quality": _JPEG_QUALITY} if kind == "JPEG" else {}))
    make_folder(path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.write_bytes(buffer.getvalue())
    aside.replace(path)
