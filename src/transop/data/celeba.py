"""CelebA: 202,599 aligned celebrity faces with 40 attributes, read from their published files.

The licence forbids passing the images on, so they are never downloaded here: the user brings
the folder or the zip, and every error says which file is missing and where it is published.
"""

import contextlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from transop.data.archive import open_zip
from transop.data.celeba_layout import (
    ATTRIBUTES_FILE,
    FACTORS_FILE,
    IMAGES,
    PARTITION_FILE,
    parse_attributes,
    parse_partition,
)
from transop.data.dataset import SPLIT_NAMES, DatasetMeta, ImageDataset
from transop.data.folder import file_entry, zip_entries
from transop.data.numpy_files import read_arrays
from transop.data.pictures import Entry, decode_pictures
from transop.data.request import DatasetRequest
from transop.errors import DataError
from transop.files import open_regular, read_regular, reason_of

HOMEPAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
DEFAULT_SIZE = 64
PAPER_TRAIN = 150_000
_ZIP = f"{IMAGES}.zip"
_FOLDERS = ("", "Anno", "Eval", "Img", "celeba")  # the publisher's, and other tools'
_PUBLISHED_IN = {_ZIP: "Img", ATTRIBUTES_FILE: "Anno", PARTITION_FILE: "Eval"}
_WEB_PAGE_BYTES = 2**16
_LARGEST_TABLE = 2**28


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
    with _locate(root) as files:
        table = parse_attributes(files.read_text(ATTRIBUTES_FILE), ATTRIBUTES_FILE)
        parts = parse_partition(files.read_text(PARTITION_FILE), table.files, PARTITION_FILE)
        factors, factor_names = files.read_factors(len(table.files))
        decoded = decode_pictures(files.entries(table.files), "celeba", request)
    kept = decoded.kept
    return ImageDataset(
        images=decoded.images,
        labels=None,
        splits=_splits(parts[kept], request.split or "paper"),
        meta=DatasetMeta(
            "celeba",
            str(root),
            attribute_names=table.names,
            factor_names=factor_names,
            notes=decoded.notes,
        ),
        attributes=table.values[kept],
        factors=None if factors is None else factors[kept],
    )


def is_celeba(place: Path) -> bool:
    """Say whether a folder, or the folder of a zip, has CelebA's layout: images and attributes."""
    root = place if place.is_dir() else place.parent
    if not any((root / name / ATTRIBUTES_FILE).exists() for name in (*_FOLDERS, "../Anno")):
        return False
    if place.is_dir():
        return any(
            (root / name / IMAGES).is_dir() or (root / name / _ZIP).exists() for name in _FOLDERS
        )
    return place.name == _ZIP


def _splits(parts: np.ndarray, split: str) -> dict[str, np.ndarray]:
    """Turn parts 0, 1, 2 into splits; the paper's training set is the first 150,000 images."""
    splits = {name: np.flatnonzero(parts == i) for i, name in enumerate(SPLIT_NAMES)}
    if split == "paper":
        splits["train"] = splits["train"][:PAPER_TRAIN]
    if not len(splits["train"]):
        raise DataError(f"'{PARTITION_FILE}' puts no image into the training part (0)")
    return {name: rows.astype(np.int64) for name, rows in splits.items() if len(rows)}


@dataclass(frozen=True)
class _Files:
    """CelebA's files: images by name, and where the tables may be.

    Attributes:
        root: the folder or zip the user named.
        images: by name.
        folders: where the tables are looked for.
    """

    root: Path
    images: dict[str, Entry]
    folders: tuple[Path, ...]

    def entries(self, names: tuple[str, ...]) -> list[Entry]:
        """Give the images that a table lists, in its order."""
        missing = [name for name in names if name not in self.images]
        if missing:
            raise DataError(
                f"{len(missing)} of {len(names)} images listed in {ATTRIBUTES_FILE} are missing "
                f"from '{self.root}' (first: {missing[0]}); unpack {_ZIP} again, or "
                + _how_to_get(_ZIP)
            )
        return [self.images[name] for name in names]

    def read_text(self, name: str) -> str:
        """Read one of the two tables.

        Raises:
            DataError: it is missing, or no text.
        """
        path = next((f / name for f in self.folders if (f / name).exists()), None)
        if path is None:
            raise DataError(
                f"CelebA's {name} is missing (looked beside and below '{self.root}'); "
                + _how_to_get(name)
            )
        try:
            return read_regular(path, most_bytes=_LARGEST_TABLE).decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"CelebA's {name} is not a text file; {_how_to_get(name)}") from None
        except OSError as error:
            raise DataError(f"CelebA's {name} cannot be read: {reason_of(error)}") from None

    def read_factors(self, n_images: int) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
        """Read the factors that lie beside generated faces, and their names."""
        path = next((p for f in self.folders if (p := f / FACTORS_FILE).exists()), None)
        if path is None:
            return None, None
        stored = read_arrays(path)
        if not {"factors", "names"} <= stored.keys() or len(stored["factors"]) != n_images:
            raise DataError(
                f"'{path}' does not hold 'factors' for the {n_images} images that "
                f"{ATTRIBUTES_FILE} lists, and 'names'; write the faces again"
            )
        return stored["factors"], tuple(str(name) for name in stored["names"])


def _how_to_get(name: str) -> str:
    """Tell where a file is published and where to put it."""
    return (
        f"get it from {HOMEPAGE} (folder {_PUBLISHED_IN[name]} of the 'Align&Cropped Images' "
        f"drive), put {_ZIP} (or its content), {ATTRIBUTES_FILE} and {PARTITION_FILE} into one "
        "folder and pass that folder as the source"
    )


@contextlib.contextmanager
def _locate(root: Path) -> Iterator[_Files]:
    """Find CelebA's files in a folder or zip; close the zip afterwards.

    Raises:
        DataError: there is no such folder or zip, or it holds no images.
    """
    if not root.exists():
        raise DataError(
            f"CelebA is not at '{root}'; its licence forbids us to fetch it: {_how_to_get(_ZIP)}"
        )
    if not root.is_dir():
        beside = tuple(root.parent / name for name in (*_FOLDERS, "../Anno", "../Eval"))
        with _open_zip(root) as archive:
            yield _Files(root, _members(root, archive), beside)
        return
    folders = tuple(root / name for name in _FOLDERS)
    for folder in folders:
        if images := _images_below(folder):
            yield _Files(root, images, folders)
            return
    for folder in folders:
        if (folder / _ZIP).exists():
            with _open_zip(folder / _ZIP) as archive:
                yield _Files(root, _members(folder / _ZIP, archive), folders)
            return
    raise DataError(
        f"CelebA's images ({IMAGES}/ or {_ZIP}) are missing in '{root}'; {_how_to_get(_ZIP)}"
    )


def _images_below(folder: Path) -> dict[str, Entry]:
    """List the images of an unpacked archive, also where it was unpacked into its own name."""
    for candidate in (folder / IMAGES / IMAGES, folder / IMAGES):
        if candidate.is_dir():
            real = candidate.resolve()
            names = sorted(path.name for path in real.glob("*.jpg"))
            if names:
                return {name: file_entry(real / name, PurePosixPath(name)) for name in names}
    return {}


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, Entry]:
    entries = zip_entries(path, archive)
    return {entry.path.name: entry for entry in entries if entry.path.suffix.lower() == ".jpg"}


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
