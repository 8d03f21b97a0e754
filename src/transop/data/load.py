"""The front door: any source a user can name becomes an `ImageDataset`."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from transop.data.archive import load_zip
from transop.data.arrays import images_from_array, labels_from_array, to_numpy
from transop.data.conform import check_wishes, conform
from transop.data.dataset import DatasetMeta, ImageDataset
from transop.data.findings import with_findings
from transop.data.folder import load_folder
from transop.data.idx_folder import is_idx_folder, load_idx_folder
from transop.data.numpy_files import load_npy, load_npz
from transop.data.request import DatasetRequest, cache_folder
from transop.data.splits import random_splits
from transop.errors import DataError
from transop.progress import Progress, silent

Source = str | Path | np.ndarray | Tensor | ImageDataset


def load_dataset(
    source: Source,
    *,
    labels: Any = None,
    path: str | Path | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    seed: int = 0,
    offline: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> ImageDataset:
    """Load images from a data set name, a file, a folder or an array.

    Args:
        source: a name from ``DATASETS``; a folder of images (classes are subfolders); a ``.npy``,
            ``.npz`` or ``.zip`` file; an array or tensor of images; or an `ImageDataset`.
        labels: class numbers, for arrays and ``.npy`` files.
        path: for names: a folder that already holds the published files.
        image_size: height and width to convert to; the source's own if not given.
        channels: 1 for grey, 3 for colour; the source's own if not given.
        cache_dir: where files are kept; `cache_folder` if not given.
        seed: decides the 80/10/10 split of sources that have none.
        offline: never touch the network.
        progress: announces long work.
        **options: further wishes of single data sets, such as the number of images to generate.

    Returns:
        The data set; odd but usable data is described in its ``meta.notes``.

    Raises:
        DataError: the source is unknown, unreachable, unreadable or holds no images.
    """
    check_wishes(image_size, channels)
    request = DatasetRequest(
        path=None if path is None else Path(path),
        image_size=image_size,
        channels=channels,
        cache_dir=cache_folder() if cache_dir is None else Path(cache_dir).expanduser().resolve(),
        seed=seed,
        offline=offline,
        progress=silent if progress is None else progress,
        options=options,
    )
    dataset = _open(source, labels, request)
    images = conform(dataset.images, image_size, channels)
    if images is not dataset.images:
        dataset = replace(dataset, images=images)
    return dataset if dataset is source else with_findings(dataset)


def _open(source: Source, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Find out what kind of source it is and read it."""
    if isinstance(source, ImageDataset):
        return source
    if isinstance(source, (str, Path)):
        return _open_named(source, labels, request)
    return dataset_from_array(source, labels, request)


def _open_named(source: str | Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    from transop.data import known_datasets  # it imports every loader, so it comes last

    datasets = known_datasets()
    if isinstance(source, str) and source in datasets:
        if labels is not None:
            raise DataError(f"labels cannot be given for data set {source!r}: it has its own")
        return datasets[source](request)
    try:
        place = Path(source).expanduser()
        exists = str(source) != "" and place.exists()
    except (OSError, ValueError, RuntimeError):  # too long a name, a null byte, no such home
        exists = False
    if not exists:
        raise DataError(_unknown(str(source), tuple(datasets)))
    if request.path is not None:
        raise DataError(f"path={str(request.path)!r} goes with a data set name, not with {place}")
    return _open_file(place, labels, request)


def _open_file(place: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Read a folder or file by what it is."""
    if place.suffix.lower() == ".npy":
        return load_npy(place, labels, request)
    if place.suffix.lower() == ".npz":
        return load_npz(place, labels, request)
    if labels is not None:
        raise DataError(
            f"labels cannot be given for {str(place)!r}: its subfolders are the classes"
        )
    if place.is_dir():
        return (load_idx_folder if is_idx_folder(place) else load_folder)(place, request)
    if place.suffix.lower() == ".zip":
        return load_zip(place, request)
    raise DataError(
        f"{str(place)!r} is of no known kind; pass a folder of images, a .npy, .npz or .zip file "
        "(pickles are never loaded; unpack other archives first)"
    )


def _unknown(source: str, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(source, names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"data set {source!r} is neither a known name nor an existing file or folder{hint}; "
        f"names: {', '.join(names)}; or give a folder of images, a .npy, .npz or .zip file"
    )


def dataset_from_array(
    array: Any, labels: Any, request: DatasetRequest, name: str = "array", origin: str = "memory"
) -> ImageDataset:
    """Make a data set of an array of images, split at random."""
    images = images_from_array(to_numpy(array, "images"))
    images = conform(images, request.image_size, request.channels)
    classes = labels_from_array(labels, len(images))
    return ImageDataset(
        images=images,
        labels=classes,
        splits=random_splits(len(images), classes, request.seed),
        meta=DatasetMeta(name, origin),
    )
