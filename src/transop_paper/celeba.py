"""CelebA: 202,599 aligned celebrity faces with 40 attributes, read from their published files.

::

    img_align_celeba/000001.jpg ...    or img_align_celeba.zip
    list_attr_celeba.txt               count, 40 names, then a file name and 40 times -1 or 1
    list_eval_partition.txt            a file name and 0 (train), 1 (validation) or 2 (test)

The licence forbids passing the images on, so they are never downloaded here: the user brings
the folder or the zip, and every error says which file is missing and where it is published.
"""

import contextlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Int8, Int64

from transop.data import (
    SPLIT_NAMES,
    DatasetLoader,
    DatasetMeta,
    DatasetRequest,
    Entry,
    ImageDataset,
    decode_pictures,
    file_entry,
    open_zip,
    read_arrays,
    zip_entries,
)
from transop.errors import DataError
from transop.files import open_regular, read_regular, reason_of

HOMEPAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
DEFAULT_SIZE = 64
PAPER_TRAIN = 150_000
_IMAGES = "img_align_celeba"
_ZIP = f"{_IMAGES}.zip"
_ATTRIBUTES = "list_attr_celeba.txt"
_PARTITION = "list_eval_partition.txt"
_FACTORS = "factors.npz"  # only beside generated faces
_PUBLISHED_IN = {_ZIP: "Img", _ATTRIBUTES: "Anno", _PARTITION: "Eval"}
_FOLDERS = ("", "Anno", "Eval", "Img", "celeba")  # the publisher's, and other tools'
_WEB_PAGE_BYTES = 2**16
_LARGEST_TABLE = 2**28

# fmt: off
CELEBA_ATTRIBUTES: tuple[str, ...] = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs",
    "Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair",
    "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair",
    "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache",
    "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings",
    "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young",
)
# The paper classifies 16 attributes and names some of them (smile, beard, hair colour, pale
# skin); these 16 are visible at 64 x 64 and are the ones the generated faces carry.
SIXTEEN_ATTRIBUTES: tuple[str, ...] = (
    "5_o_Clock_Shadow", "Bald", "Bangs", "Black_Hair", "Blond_Hair", "Brown_Hair", "Chubby",
    "Eyeglasses", "Gray_Hair", "Mouth_Slightly_Open", "Mustache", "No_Beard", "Pale_Skin",
    "Smiling", "Wearing_Hat", "Wearing_Lipstick",
)
# fmt: on


def load_celeba(request: DatasetRequest) -> ImageDataset:
    """Load CelebA: aligned faces, centre-cropped and resized to 64 x 64, with 40 attributes.

    The folder or zip is ``path``, else ``celeba`` in the cache. Unreadable images are left out,
    counted and named. ``split`` is ``"paper"`` (the default: train on the first 150,000 training
    images) or ``"official"``.

    Differs from the paper: it keeps only a training and a test set; here CelebA's own
    validation images serve as validation set, and the training images beyond the first 150,000
    are left out.
    """
    request.refuse_options("celeba", splits=("paper", "official"))
    root = request.path if request.path is not None else request.cache_dir / "celeba"
    request = replace(
        request, image_size=request.image_size or DEFAULT_SIZE, channels=request.channels or 3
    )
    with _images_of(root) as images:
        files, names, attributes = parse_attributes(_read_text(root, _ATTRIBUTES))
        parts = _parse_partition(_read_text(root, _PARTITION), files)
        factors, factor_names = _read_factors(root, len(files))
        if missing := [name for name in files if name not in images]:
            raise DataError(
                f"{len(missing)} of {len(files)} images listed in {_ATTRIBUTES} are missing from "
                f"'{root}' (first: {missing[0]}); unpack {_ZIP} again, or {_how_to_get(_ZIP)}"
            )
        decoded = decode_pictures([images[name] for name in files], "celeba", request)
    kept = decoded.kept
    meta = DatasetMeta(
        "celeba",
        str(root),
        attribute_names=names,
        factor_names=factor_names,
        notes=decoded.notes,
    )
    splits = _splits(parts[kept], request.split or "paper")
    factors = None if factors is None else factors[kept]
    return ImageDataset(decoded.images, None, splits, meta, attributes[kept], factors)


def recognise(place: Path) -> DatasetLoader | None:
    """Give the loader of a folder, or of a zip, in CelebA's layout: images and attributes."""
    if _find(place, _ATTRIBUTES) is None:
        return None
    has_images = place.name == _ZIP
    if place.is_dir():
        has_images = _find(place, _IMAGES) is not None or _find(place, _ZIP) is not None
    return load_celeba if has_images else None


def _splits(parts: np.ndarray, split: str) -> dict[str, np.ndarray]:
    """Turn parts 0, 1, 2 into splits; the paper's training set is the first 150,000 images."""
    splits = {name: np.flatnonzero(parts == i) for i, name in enumerate(SPLIT_NAMES)}
    if split == "paper":
        splits["train"] = splits["train"][:PAPER_TRAIN]
    if not len(splits["train"]):
        raise DataError(f"'{_PARTITION}' puts no image into the training part (0)")
    return {name: rows.astype(np.int64) for name, rows in splits.items() if len(rows)}


def _folders(place: Path) -> list[Path]:
    """List where CelebA's files may be: in a folder, or beside a zip."""
    if place.is_dir():
        return [place / name for name in _FOLDERS]
    return [place.parent / name for name in (*_FOLDERS, "../Anno", "../Eval")]


def _find(place: Path, name: str) -> Path | None:
    return next((f / name for f in _folders(place) if (f / name).exists()), None)


def _how_to_get(name: str) -> str:
    return (
        f"get it from {HOMEPAGE} (folder {_PUBLISHED_IN[name]} of the 'Align&Cropped Images' "
        f"drive), put {_ZIP} (or its content), {_ATTRIBUTES} and {_PARTITION} into one "
        "folder and pass that folder as the source"
    )


@contextlib.contextmanager
def _images_of(root: Path) -> Iterator[dict[str, Entry]]:
    """Find the images of a folder or zip by name; close the zip afterwards."""
    if not root.exists():
        raise DataError(
            f"CelebA is not at '{root}'; its licence forbids us to fetch it: {_how_to_get(_ZIP)}"
        )
    for folder in _folders(root) if root.is_dir() else ():
        # Some tools unpack the archive into a folder of its own name.
        for unpacked in (folder / _IMAGES / _IMAGES, folder / _IMAGES):
            real = unpacked.resolve()
            if names := sorted(path.name for path in real.glob("*.jpg")):
                yield {name: file_entry(real / name, PurePosixPath(name)) for name in names}
                return
    path = _find(root, _ZIP) if root.is_dir() else root
    if path is None:
        raise DataError(
            f"CelebA's images ({_IMAGES}/ or {_ZIP}) are missing in '{root}'; {_how_to_get(_ZIP)}"
        )
    with _open_zip(path) as archive:
        entries = zip_entries(path, archive)
        yield {entry.path.name: entry for entry in entries if entry.path.suffix.lower() == ".jpg"}


def _open_zip(path: Path) -> zipfile.ZipFile:
    """Open the archive, telling a saved web page and a broken download apart."""
    try:
        return open_zip(path)
    except DataError as error:
        if "no zip archive" not in str(error):
            raise
    with open_regular(path) as file:
        beginning = file.read(_WEB_PAGE_BYTES).lower()
    if b"<html" in beginning or b"<!doctype html" in beginning:
        quota = b"quota" in beginning or b"too many users" in beginning
        what = "Google Drive's 'quota exceeded' page" if quota else "a web page"
        raise DataError(
            f"'{path}' is {what} saved under the name of the zip, not the images; delete it, "
            f"try again in a day or from another mirror: {HOMEPAGE}"
        )
    raise DataError(
        f"'{path}' is no complete zip file ({path.stat().st_size:,} bytes; the published "
        f"{_ZIP} has about 1.4 GB); download it again from {HOMEPAGE}"
    )


def _read_text(root: Path, name: str) -> str:
    path = _find(root, name)
    if path is None:
        raise DataError(
            f"CelebA's {name} is missing (looked beside and below '{root}'); {_how_to_get(name)}"
        )
    try:
        return read_regular(path, most_bytes=_LARGEST_TABLE).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"CelebA's {name} is not a text file; {_how_to_get(name)}") from None
    except OSError as error:
        raise DataError(f"CelebA's {name} cannot be read: {reason_of(error)}") from None


def _read_factors(root: Path, n: int) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Read the factors that lie beside generated faces, and their names."""
    path = _find(root, _FACTORS)
    if path is None:
        return None, None
    stored = read_arrays(path)
    if not {"factors", "names"} <= stored.keys() or len(stored["factors"]) != n:
        raise DataError(
            f"'{path}' does not hold 'factors' for the {n} images that {_ATTRIBUTES} lists, "
            "and 'names'; write the faces again"
        )
    return stored["factors"], tuple(str(name) for name in stored["names"])


def parse_attributes(
    text: str,
) -> tuple[tuple[str, ...], tuple[str, ...], Int8[np.ndarray, "files names"]]:
    """Read files, attribute names and values (-1 or 1) out of the attribute table."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not lines[0].strip().isdigit():
        raise _not_as_published("does not begin with the number of images and 40 attribute names")
    names, rows = tuple(lines[1].split()), lines[2:]
    if len(names) != len(CELEBA_ATTRIBUTES):
        raise _not_as_published(f"names {len(names)} attributes on line 2, CelebA has 40")
    if len(rows) != int(lines[0]):
        raise _not_as_published(f"announces {lines[0].strip()} images but lists {len(rows)}")
    files = []
    values = np.empty((len(rows), len(names)), dtype=np.int8)
    for i, row in enumerate(rows):
        file, *cells = row.split()
        if len(cells) != len(names):
            raise _not_as_published(
                f"has {len(cells)} attribute values for {file} (row {i + 1}) instead of 40"
            )
        if not set(cells) <= {"-1", "1"}:
            odd = next(cell for cell in cells if cell not in {"-1", "1"})
            raise _not_as_published(f"has the attribute value {odd!r} for {file}; use -1 or 1")
        files.append(file)
        values[i] = [1 if cell == "1" else -1 for cell in cells]
    return tuple(files), names, values


def _not_as_published(what: str) -> DataError:
    return DataError(f"CelebA's attribute table '{_ATTRIBUTES}' {what}: get the file as published")


def _parse_partition(text: str, files: Sequence[str]) -> Int64[np.ndarray, " files"]:
    """Read which part (0, 1 or 2) each of the given files belongs to."""
    parts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.split()
        if cells and (len(cells) != 2 or cells[1] not in {"0", "1", "2"}):
            raise DataError(
                f"'{_PARTITION}' line {number} is {line.strip()[:60]!r}; expected a file name and "
                "0 (train), 1 (validation) or 2 (test)"
            )
        if cells:
            parts[cells[0]] = int(cells[1])
    if missing := [file for file in files if file not in parts]:
        raise DataError(
            f"'{_PARTITION}' does not say to which part {len(missing)} of {len(files)} images "
            f"belong (first: {missing[0]}); get the file as published"
        )
    return np.array([parts[file] for file in files], dtype=np.int64)
