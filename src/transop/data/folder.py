"""Folders of image files."""

import os
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
    """Walk the folder, following links but entering each real folder once."""
    seen = set()
    for folder, subfolders, names in os.walk(root, followlinks=True):
        here = Path(folder)
        real = here.resolve()
        if real in seen:  # a link back up would otherwise be followed for ever
            subfolders.clear()
            continue
        seen.add(real)
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        relative = PurePosixPath(here.relative_to(root).as_posix())
        for name in names:
            if name.startswith(".") or PurePosixPath(name).suffix.lower() not in EXTENSIONS:
                continue
            path = real / name
            try:
                stat = path.stat()
            except OSError:
                stamp = str(path)  # a dead link: decoding will list it
            else:
                # The full path is in the stamp: two folders with the same names differ.
                stamp = f"{path} {stat.st_size} {stat.st_mtime_ns}"
            yield Entry(relative / name, stamp, partial(open_bytes, path))
