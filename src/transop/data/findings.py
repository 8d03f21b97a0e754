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
    starts = range(0, len(images), _CHUNK)
    return all(bool((images[start : start + _CHUNK] == images[0]).all()) for start in starts)


def _image_findings(dataset: ImageDataset) -> list[str]:
    n, found = len(dataset), []
    if n < FEWEST_IMAGES:
        found.append(
            f"only {n} image{'s' if n > 1 else ''}: training needs at least {FEWEST_IMAGES}"
        )
    if n > 1 and _all_identical(dataset.images):
        found.append(f"all {n} images are identical: there is no transformation to learn")
    if found:
        return found
    looked_at = dataset.images[:: -(-n // _LOOKED_AT)]
    chunks = (looked_at[start : start + _CHUNK] for start in range(0, len(looked_at), _CHUNK))
    n_constant = sum(int((c.min((1, 2, 3)) == c.max((1, 2, 3))).sum()) for c in chunks)
    if n_constant:
        return [
            f"{n_constant} of {len(looked_at)} images looked at are constant "
            "(a single value in every pixel)"
        ]
    return []


def _label_findings(dataset: ImageDataset) -> list[str]:
    if dataset.labels is None:
        return []
    present = np.unique(dataset.labels)
    names = dataset.meta.class_names or ()

    def named(label: int) -> str:
        return repr(names[label]) if label < len(names) else str(label)

    if len(present) == 1:
        return [
            f"one class only ({named(int(present[0]))}): labels cannot guide "
            "classifiers or same-class pairs"
        ]
    found = []
    for split, rows in dataset.splits.items():
        absent = np.setdiff1d(present, dataset.labels[rows]).tolist()
        if absent:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            shown = ", ".join(named(label) for label in absent[:5])
            found.append(f"class {shown}{more} is absent from the {split} split")
    return found
