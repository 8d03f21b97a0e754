"""The learned augmentation as a drop-in transform, for batches and for folders of files."""

from transop.augment.folder import FolderReport, augment_folder
from transop.augment.guard import Guard
from transop.augment.transform import Params, TransportAugment

__all__ = ["FolderReport", "Guard", "Params", "TransportAugment", "augment_folder"]
