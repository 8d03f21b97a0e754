"""Data sets: one file per source; each becomes the same small object, an `ImageDataset`."""

from transop.data.array_files import read_arrays
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    split_sizes,
)
from transop.data.findings import require_trainable
from transop.data.load import load_dataset
from transop.data.picture import (
    EXTENSIONS,
    UnreadablePicture,
    conform,
    read_header,
    read_picture,
)
from transop.data.pictures import Entry, decode_pictures, file_entry, open_zip, zip_entries
from transop.data.published import DATASETS, known_datasets
from transop.data.request import DatasetRequest, cache_folder
from transop.data.run_data import DataRecord, load_run_data, with_source
from transop.data.sources import Catalogue, PublishedFile, obtain

__all__ = [
    "DATASETS",
    "EXTENSIONS",
    "SPLIT_NAMES",
    "Catalogue",
    "DataRecord",
    "DatasetMeta",
    "DatasetRequest",
    "Entry",
    "ImageDataset",
    "PublishedFile",
    "UnreadablePicture",
    "cache_folder",
    "conform",
    "consecutive_splits",
    "decode_pictures",
    "file_entry",
    "known_datasets",
    "load_dataset",
    "load_run_data",
    "obtain",
    "open_zip",
    "read_arrays",
    "read_header",
    "read_picture",
    "require_trainable",
    "split_sizes",
    "with_source",
    "zip_entries",
]
