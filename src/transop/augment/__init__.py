"""The learned augmentation as a drop-in transform, for batches, data sets and folders of files."""

from transop.augment.dataset import AugmentedDataset
from transop.augment.folder import FolderReport, augment_folder
from transop.augment.guard import Guard
from transop.augment.start import Params, Start
from transop.augment.transform import TransportAugment

__all__ = [
    "AugmentedDataset",
    "FolderReport",
    "Guard",
    "Params",
    "Start",
    "TransportAugment",
    "augment_folder",
]
