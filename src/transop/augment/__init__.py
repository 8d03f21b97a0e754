"""The learned augmentation as a drop-in transform, for batches and data sets."""

from transop.augment.dataset import AugmentedDataset
from transop.augment.guard import Guard
from transop.augment.start import Params, Start
from transop.augment.transform import TransportAugment

__all__ = ["AugmentedDataset", "Guard", "Params", "Start", "TransportAugment"]
