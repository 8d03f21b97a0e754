"""Folders of image files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from transop.data.dataset import ImageDataset
from transop.data.files import open_bytes
from transop.data.picture import EXTENSIONS
from transop.data.pictures import Entry, dataset_from_pictures
from transop.data.request import DatasetRequest
from transop.errors import DataError


def load_folder(root: Path, request: DatasetRequest) -> ImageDataset:
    """Load every image below a folder; subfolders are classes.

    Args:
        root: the folder.
        request: wanted size and channels, seed and cache.

    Returns:
        The images, split 80/10/10 unless the folder has train and test subfolders.
    """
    request.refuse_options(f"folder {root.name}")
    entries = list(_entries(root))
    if not entries:
        known = " ".join(sorted(EXTENSIONS))
        raise DataError(f"folder {str(root)!r} contains no image files ({known}); check the path")
    return dataset_from_pictures(entries, root.resolve().name, f"folder {root}", request)


def _entries(root: Path) -> Iterator[Entry]:
    for path in root.rglob("*"):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if path.suffix.lower() not in EXTENSIONS or any(p.startswith(".") for p in relative.parts):
            continue
        if path.is_file():
            stat = path.stat()
            # The full path is in the stamp: two folders with the same names are not the same.
            stamp = f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}"
            yield Entry(relative, stamp, partial(open_bytes, path))
