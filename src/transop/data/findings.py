"""Say what is odd about a data set before hours are spent on it."""

import logging
from collections.abc import Iterator
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
    """Look for odd but usable data, log each finding and keep it in ``meta.notes``."""
    notes = dataset.meta.notes
    for note in (*_image_findings(dataset), *_label_findings(dataset)):
        if note not in notes:
            notes = (*notes, note)
            _log.warning("data set %r: %s", dataset.meta.name, note)
    return replace(dataset, meta=replace(dataset.meta, notes=notes))


def require_trainable(dataset: ImageDataset) -> None:
    """Refuse a data set nothing can be learned from: too few images, or all identical."""
    for flaw in _flaws(dataset):
        raise DataError(f"data set {dataset.meta.name!r} cannot be used for training: {flaw}")


def _flaws(dataset: ImageDataset) -> Iterator[str]:
    """Say why nothing can be learned from a data set."""
    n, images = len(dataset), dataset.images
    if n < FEWEST_IMAGES:
        few = f"{n} image{'s' if n > 1 else ''}"
        yield f"only {few}: training needs at least {FEWEST_IMAGES}, so add images"
    # all() stops at the first chunk that differs from the first image.
    chunks = (images[start : start + _CHUNK] for start in range(0, n, _CHUNK))
    if n > 1 and all(bool((chunk == images[0]).all()) for chunk in chunks):
        yield f"all {n} images are identical: there is no transformation to learn"


def _image_findings(dataset: ImageDataset) -> Iterator[str]:
    flaws = list(_flaws(dataset))
    yield from flaws
    looked_at = dataset.images[:: -(-len(dataset) // _LOOKED_AT)]
    chunks = (looked_at[start : start + _CHUNK] for start in range(0, len(looked_at), _CHUNK))
    n_constant = sum(int((c.min((1, 2, 3)) == c.max((1, 2, 3))).sum()) for c in chunks)
    if n_constant and not flaws:
        yield (
            f"{n_constant} of {len(looked_at)} images looked at are constant "
            "(a single value in every pixel)"
        )


def _label_findings(dataset: ImageDataset) -> Iterator[str]:
    if dataset.labels is None:
        return
    present = np.unique(dataset.labels)
    names = dataset.meta.class_names or ()

    def named(label: int) -> str:
        return repr(names[label]) if label < len(names) else str(label)

    if len(present) == 1:
        only = named(int(present[0]))
        yield f"one class only ({only}): labels cannot guide classifiers or same-class pairs"
    for split, rows in dataset.splits.items():
        absent = np.setdiff1d(present, dataset.labels[rows]).tolist()
        if absent:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            shown = ", ".join(named(label) for label in absent[:5])
            yield f"class {shown}{more} is absent from the {split} split"
