"""Say what is odd about a data set before hours are spent on it."""

import logging
from dataclasses import replace

import numpy as np

from transop.data.dataset import ImageDataset
from transop.errors import DataError

_log = logging.getLogger(__name__)

# Fewer images than this leave no neighbours to pair and nothing to hold out.
FEWEST_IMAGES = 10
_CHUNK = 2048
_LOOKED_AT = 10_000  # evenly spaced, so that millions of images do not delay every start


def with_findings(dataset: ImageDataset) -> ImageDataset:
    """Look for odd but usable data, log each finding and keep it in ``meta.notes``.

    Args:
        dataset: any data set.

    Returns:
        The same images with the findings noted.
    """
    notes = [*dataset.meta.notes]
    for note in (*_image_findings(dataset), *_label_findings(dataset)):
        if note not in notes:
            notes.append(note)
            _log.warning("data set %r: %s", dataset.meta.name, note)
    return replace(dataset, meta=replace(dataset.meta, notes=tuple(notes)))


def require_trainable(dataset: ImageDataset) -> None:
    """Refuse a data set nothing can be learned from: too few images, or all identical.

    Args:
        dataset: what training is about to use.
    """
    name = dataset.meta.name
    if len(dataset) < FEWEST_IMAGES:
        raise DataError(
            f"data set {name!r} has only {len(dataset)} images; "
            f"training needs at least {FEWEST_IMAGES}: add images"
        )
    if _all_identical(dataset.images):
        raise DataError(
            f"all {len(dataset)} images of data set {name!r} are identical, so there is no "
            "transformation to learn; pass images that differ"
        )


def _all_identical(images: np.ndarray) -> bool:
    """Compare every image with the first, stopping at the first chunk that differs."""
    first = images[0]
    return all(
        bool((images[start : start + _CHUNK] == first).all())
        for start in range(0, len(images), _CHUNK)
    )


def _image_findings(dataset: ImageDataset) -> list[str]:
    n = len(dataset)
    if n < FEWEST_IMAGES:
        few = f"only {n} image{'s' if n > 1 else ''}: training needs at least {FEWEST_IMAGES}"
        same = n > 1 and _all_identical(dataset.images)
        return [few, f"all {n} images are identical"] if same else [few]
    if _all_identical(dataset.images):
        return [f"all {n} images are identical: there is no transformation to learn"]
    looked_at = dataset.images
    if n > _LOOKED_AT:
        looked_at = looked_at[:: -(-n // _LOOKED_AT)]
    n_constant = _count_constant(looked_at)
    if n_constant:
        return [
            f"{n_constant} of {len(looked_at)} images looked at are constant "
            "(a single value in every pixel)"
        ]
    return []


def _count_constant(images: np.ndarray) -> int:
    count = 0
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK]
        count += int((chunk.min(axis=(1, 2, 3)) == chunk.max(axis=(1, 2, 3))).sum())
    return count


def _label_findings(dataset: ImageDataset) -> list[str]:
    if dataset.labels is None:
        return []
    present = np.unique(dataset.labels)
    if len(present) == 1:
        return [
            f"one class only ({_class_name(dataset, int(present[0]))}): labels cannot guide "
            "classifiers or same-class pairs"
        ]
    found = []
    for split, rows in dataset.splits.items():
        absent = np.setdiff1d(present, dataset.labels[rows])
        if len(absent):
            names = ", ".join(_class_name(dataset, int(label)) for label in absent[:5])
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            found.append(f"class {names}{more} is absent from the {split} split")
    return found


def _class_name(dataset: ImageDataset, label: int) -> str:
    names = dataset.meta.class_names
    return repr(names[label]) if names is not None and label < len(names) else str(label)
