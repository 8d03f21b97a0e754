import numpy as np
import pytest

from transop.data import DatasetMeta, ImageDataset


@pytest.fixture
def make_dataset():
    """Build a small set: noisy copies of one image per class; the train split is not a prefix."""

    def build(n=60, n_classes=3, size=8, channels=1, labelled=True, seed=0):
        rng = np.random.default_rng(seed)
        labels = np.arange(n) % n_classes
        prototypes = rng.integers(0, 256, (n_classes, channels, size, size))
        noise = rng.integers(-10, 11, (n, channels, size, size))
        images = np.clip(prototypes[labels] + noise, 0, 255).astype(np.uint8)
        order = rng.permutation(n)
        cut = n * 3 // 4
        return ImageDataset(
            images,
            labels.astype(np.int64) if labelled else None,
            {"train": order[:cut].astype(np.int64), "test": order[cut:].astype(np.int64)},
            DatasetMeta("blobs", "made in a test"),
        )

    return build
