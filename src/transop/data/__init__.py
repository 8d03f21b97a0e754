"""Data sets: one file per source; each becomes the same small object, an `ImageDataset`."""

from importlib.metadata import entry_points

from transop.data.celeba import CELEBA_ATTRIBUTES, SIXTEEN_ATTRIBUTES, load_celeba
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    split_sizes,
)
from transop.data.findings import require_trainable
from transop.data.load import dataset_from_settings, load_dataset
from transop.data.picture import (
    EXTENSIONS,
    UnreadablePicture,
    conform,
    read_header,
    read_picture,
)
from transop.data.published import PUBLISHED
from transop.data.request import DatasetLoader, DatasetRequest, cache_folder
from transop.data.run_data import DataRecord, load_run_data, open_run_data, with_source

DATASETS: dict[str, DatasetLoader] = {**PUBLISHED, "celeba": load_celeba}

# Further data sets, such as the reproduction's drawn faces: entry points of this group.
DATASET_GROUP = "transop.datasets"


def known_datasets() -> dict[str, DatasetLoader]:
    """List every data set that can be asked for by name: ours, and those of other packages."""
    further = {entry.name: entry.load() for entry in entry_points(group=DATASET_GROUP)}
    return {**DATASETS, **further}


__all__ = [
    "CELEBA_ATTRIBUTES",
    "DATASETS",
    "EXTENSIONS",
    "SIXTEEN_ATTRIBUTES",
    "SPLIT_NAMES",
    "DataRecord",
    "DatasetMeta",
    "DatasetRequest",
    "ImageDataset",
    "UnreadablePicture",
    "cache_folder",
    "conform",
    "consecutive_splits",
    "dataset_from_settings",
    "known_datasets",
    "load_dataset",
    "load_run_data",
    "open_run_data",
    "read_header",
    "read_picture",
    "require_trainable",
    "split_sizes",
    "with_source",
]
