"""Data sets: files, folders and arrays all become one small object, an `ImageDataset`."""

from transop.data.array_files import read_arrays
from transop.data.arrays import Part, dataset_from_parts, labels_from_array
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    random_order,
    split_sizes,
    spread_out,
)
from transop.data.findings import require_trainable
from transop.data.load import load_dataset
from transop.data.picture import EXTENSIONS, UnreadablePicture, conform, read_header, read_picture
from transop.data.pictures import Entry, decode_pictures, file_entry, open_zip, zip_entries
from transop.data.registry import DATASETS, known_datasets
from transop.data.request import DatasetLoader, DatasetRequest, cache_folder
from transop.data.run_data import DataRecord, load_run_data, with_source

__all__ = [
    "DATASETS",
    "EXTENSIONS",
    "SPLIT_NAMES",
    "DataRecord",
    "DatasetLoader",
    "DatasetMeta",
    "DatasetRequest",
    "Entry",
    "ImageDataset",
    "Part",
    "UnreadablePicture",
    "cache_folder",
    "conform",
    "consecutive_splits",
    "dataset_from_parts",
    "decode_pictures",
    "file_entry",
    "known_datasets",
    "labels_from_array",
    "load_dataset",
    "load_run_data",
    "open_zip",
    "random_order",
    "read_arrays",
    "read_header",
    "read_picture",
    "require_trainable",
    "split_sizes",
    "spread_out",
    "with_source",
    "zip_entries",
]
