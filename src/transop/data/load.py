"""Read any source a user can name into an `ImageDataset`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from transop.data.array_files import load_npy, load_npz
from transop.data.arrays import (
    Part,
    dataset_from_parts,
    is_item_source,
    labels_from_array,
    parts_from_items,
)
from transop.data.dataset import ImageDataset, random_splits
from transop.data.findings import with_findings
from transop.data.picture import Crop, Fit, check_options, conform
from transop.data.pictures import load_folder, load_zip
from transop.data.registry import known_datasets, recognised_layout
from transop.data.request import DatasetRequest, cache_folder
from transop.errors import DataError, did_you_mean
from transop.files import real_path
from transop.inputs import check_callable, check_flag, check_kind, check_path, check_seed
from transop.progress import Progress, silent

# A name, a path, an array, a tensor, a data set of torch or Hugging Face, or several by split.
Source = str | Path | np.ndarray | Tensor | ImageDataset | Sequence[Any] | Mapping[str, Any]


def load_dataset(
    source: Source | Any,
    *,
    labels: Any = None,
    path: str | Path | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    fit: Fit = "crop",
    crop: Crop | None = None,
    split: str | None = None,
    cache_dir: str | Path | None = None,
    seed: int = 0,
    offline: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> ImageDataset:
    """Load images from a data set name, a file, a folder, an array or another library's data set.

    Args:
        source: a name from ``DATASETS``; a folder of images (classes are subfolders) or in
            CelebA's or MNIST's layout; a ``.npy``, ``.npz`` or ``.zip`` file; an array or tensor
            of images; a torch ``Dataset``, a Hugging Face ``Dataset`` or a list of images; a
            mapping from split names to any of the last three; or an `ImageDataset`.
        labels: class numbers, for arrays, ``.npy`` and ``.npz`` files and an `ImageDataset`.
        path: for names: a folder that already holds the published files.
        image_size: height and width to convert to; the source's own if not given.
        channels: 1 for grey, 3 for colour; the source's own if not given.
        fit: images that are not square are cropped to the central square (``"crop"``) or padded
            with black (``"pad"``).
        crop: which part of every image to keep: the side of the central square in pixels, a
            name (``"celeba"``: the central square of a 178 x 218 picture at any scale), or
            (left, top, right, bottom) as shares of width and height, stretched to a square.
        split: ``"random"`` splits 80/10/10 by ``seed``; CelebA also has ``"paper"`` and
            ``"official"``; the source's own if not given.
        cache_dir: where files are kept; `cache_folder` if not given.
        seed: decides the 80/10/10 split of sources that have none.
        offline: never use the network.
        progress: announces long work.
        **options: further options of single data sets, such as the number of images to generate.

    Returns:
        The data set; odd but usable data is described in its ``meta.notes``.

    Raises:
        UserError: an option is impossible.
        DataError: the source is unknown, unreachable, unreadable or holds no images.
    """
    check_options(image_size, channels, fit, crop)
    check_kind("split", split, str, optional=True)
    check_callable("progress", progress, n_arguments=3, optional=True)
    folder = cache_folder() if cache_dir is None else check_path("cache_dir", cache_dir)
    request = DatasetRequest(
        path=None if path is None else check_path("path", path),
        image_size=image_size,
        channels=channels,
        fit=fit,
        crop=crop,
        split=split,
        cache_dir=real_path(folder),
        seed=check_seed("seed", seed),
        offline=check_flag("offline", offline),
        progress=silent if progress is None else progress,
        options=options,
    )
    dataset = _open(source, labels, request)
    images = conform(dataset.images, image_size, channels)  # what a loader left as it was
    if images is not dataset.images:
        dataset = replace(dataset, images=images)
    if split == "random":
        dataset = replace(dataset, splits=random_splits(len(dataset), dataset.labels, seed))
    return dataset if dataset is source else with_findings(dataset)


def _open(source: Any, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Find out what kind of source it is and read it."""
    if isinstance(source, ImageDataset):  # loaded before
        dataset: ImageDataset = source
        request.refuse_options(dataset.meta.name)
        if labels is not None:
            dataset = replace(dataset, labels=labels_from_array(labels, len(dataset)))
        images = request.conform(dataset.images)
        return dataset if images is dataset.images else replace(dataset, images=images)
    if isinstance(source, (str, Path)):
        return _open_named(source, labels, request)
    request.refuse_options("array")
    if is_item_source(source):
        if labels is not None:
            raise DataError("labels cannot be given for a data set of items: it has its own")
        parts, class_names = parts_from_items(source, request)
        return dataset_from_parts(parts, "items", type(source).__name__, request, class_names)
    if not (hasattr(source, "__array__") or isinstance(source, list | tuple | Tensor)):
        raise DataError(
            f"a source of type {type(source).__name__} cannot be read; pass a name, a path, an "
            "array or tensor of images, or a data set with a length and items"
        )
    return dataset_from_parts([Part(None, source, labels)], "array", "memory", request)


def _open_named(source: str | Path, labels: Any, request: DatasetRequest) -> ImageDataset:
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
        raise DataError(
            f"data set {str(source)!r} is neither a known name nor an existing file or folder"
            f"{did_you_mean(str(source), datasets)}; names: {', '.join(datasets)}; or give a "
            "folder of images, a .npy, .npz or .zip file"
        )
    if request.path is not None:
        raise DataError(f"path={str(request.path)!r} goes with a data set name, not with {place}")
    return _open_file(place, labels, request)


def _open_file(place: Path, labels: Any, request: DatasetRequest) -> ImageDataset:
    """Read a folder or file by what it is."""
    kind = place.suffix.lower()
    if kind in (".npy", ".npz"):
        return (load_npy if kind == ".npy" else load_npz)(place, labels, request)
    if labels is not None:
        raise DataError(
            f"labels cannot be given for {str(place)!r}: its subfolders are the classes"
        )
    if (load := recognised_layout(place)) is not None:
        return load(replace(request, path=place))
    if place.is_dir():
        return load_folder(place, request)
    if kind == ".zip":
        return load_zip(place, request)
    raise DataError(
        f"{str(place)!r} is of no known kind; pass a folder of images, a .npy, .npz or .zip file "
        "(pickles are never loaded; unpack other archives first)"
    )
