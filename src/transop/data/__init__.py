"""Data sets: files, arrays and published sources all become one small object, an `ImageDataset`."""

from transop.data.array_files import read_arrays
from transop.data.arrays import Part, dataset_from_parts, labels_from_array
from transop.data.dataset import (
    SPLIT_NAMES,
    DatasetMeta,
    ImageDataset,
    consecutive_splits,
    split_sizes,
)
from transop.data.download import SourceUnavailable
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
from transop.data.published import (
    DATASETS,
    DIGIT_NAMES,
    ImagesAndLabels,
    known_datasets,
    load_published,
)
from transop.data.request import DatasetLoader, DatasetRequest, cache_folder
from transop.data.run_data import DataRecord, load_run_data, with_source
from transop.data.sources import Catalogue, PublishedFile, obtain

__all__ = [
    "DATASETS",
    "DIGIT_NAMES",
    "EXTENSIONS",
    "SPLIT_NAMES",
    "Catalogue",
    "DataRecord",
    "DatasetLoader",
    "DatasetMeta",
    "DatasetRequest",
    "Entry",
    "ImageDataset",
    "ImagesAndLabels",
    "Part",
    "PublishedFile",
    "SourceUnavailable",
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
    "load_published",
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
