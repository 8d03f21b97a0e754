"""The object every data set becomes."""

import numpy as np
import pytest
import torch

from transop.data import DatasetMeta, ImageDataset
from transop.data.dataset import random_splits
from transop.errors import DataError


def make_dataset(n: int = 40, size: int = 8, channels: int = 1) -> ImageDataset:
    random = np.random.default_rng(0)
    labels = np.arange(n) % 4
    return ImageDataset(
        images=random.integers(0, 256, (n, channels, size, size), dtype=np.uint8),
        labels=labels,
        splits=random_splits(n, labels, seed=1),
        meta=DatasetMeta("made", "memory", attribute_names=("a", "b"), factor_names=("f",)),
        attributes=random.integers(0, 2, (n, 2)).astype(np.int8),
        factors=random.normal(size=(n, 1)).astype(np.float32),
    )


def test_a_batch_is_float_between_zero_and_one_in_the_order_asked():
    dataset = make_dataset()
    batch = dataset.batch([5, 2])
    assert batch.dtype == torch.float32
    assert batch.shape == (2, 1, 8, 8)
    expected = torch.from_numpy(dataset.images[[5, 2]].astype(np.float32) / 255)
    torch.testing.assert_close(batch, expected)


def test_tensor_array_list_and_slice_choose_the_same_batch():
    dataset = make_dataset()
    by_list = dataset.batch([3, 4])
    for indices in (torch.tensor([3, 4]), np.array([3, 4]), slice(3, 5)):
        torch.testing.assert_close(dataset.batch(indices), by_list)


def test_changing_a_batch_leaves_the_dataset_alone():
    dataset = make_dataset()
    before = dataset.images.copy()
    dataset.batch(slice(0, 4)).zero_()
    np.testing.assert_array_equal(dataset.images, before)


def test_a_subset_carries_labels_attributes_and_factors_along():
    dataset = make_dataset()
    rows = dataset.splits["test"]
    part = dataset.subset("test")
    assert list(part.splits) == ["test"]
    np.testing.assert_array_equal(part.images, dataset.images[rows])
    np.testing.assert_array_equal(part.labels, dataset.labels[rows])
    np.testing.assert_array_equal(part.attributes, dataset.attributes[rows])
    np.testing.assert_array_equal(part.factors, dataset.factors[rows])


def test_a_contiguous_subset_is_a_view():
    dataset = make_dataset()
    assert np.shares_memory(dataset.subset(range(10, 20)).images, dataset.images)


def test_a_missing_split_is_refused_by_name():
    with pytest.raises(DataError, match=r"split='dev'.*train, validation, test"):
        make_dataset().subset("dev")


def test_the_content_hash_follows_content_and_not_identity():
    one, two = make_dataset(), make_dataset()
    assert one.content_hash() == two.content_hash()
    two.images[7, 0, 3, 3] ^= 1
    assert make_dataset().content_hash() == one.content_hash()
    assert ImageDataset(two.images, two.labels, two.splits, two.meta).content_hash() != (
        ImageDataset(one.images, one.labels, one.splits, one.meta).content_hash()
    )


def test_shape_properties_describe_the_images():
    dataset = make_dataset(channels=3)
    assert (dataset.n_channels, dataset.image_size, dataset.n_classes) == (3, 8, 4)
    assert dataset.image_shape == (3, 8, 8)
    assert len(dataset) == 40


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((3, 1, 8, 8), np.float32), "float32"),
        (np.zeros((3, 8, 8), np.uint8), r"\(3, 8, 8\)"),
        (np.zeros((0, 1, 8, 8), np.uint8), "no images"),
        (np.zeros((3, 2, 8, 8), np.uint8), "1 or 3 channels"),
        (np.zeros((3, 1, 8, 9), np.uint8), "equal height and width"),
    ],
)
def test_images_of_another_form_are_refused(images, message):
    with pytest.raises(DataError, match=message):
        ImageDataset(images, None, {"train": np.arange(1)}, DatasetMeta("bad", "memory"))


@pytest.mark.parametrize("rows", [np.array([3]), np.array([-1]), np.array([], dtype=np.int64)])
def test_splits_that_point_nowhere_are_refused(rows):
    with pytest.raises(DataError, match="split"):
        ImageDataset(
            np.zeros((3, 1, 8, 8), np.uint8), None, {"train": rows}, DatasetMeta("bad", "memory")
        )


def test_columns_of_another_length_are_refused():
    with pytest.raises(DataError, match="labels has 2 rows but there are 3 images"):
        ImageDataset(
            np.zeros((3, 1, 8, 8), np.uint8),
            np.zeros(2, np.int64),
            {"train": np.arange(3)},
            DatasetMeta("bad", "memory"),
        )


def test_negative_labels_are_refused():
    with pytest.raises(DataError, match="number the classes from 0"):
        ImageDataset(
            np.zeros((2, 1, 8, 8), np.uint8),
            np.array([-1, 0]),
            {"train": np.arange(2)},
            DatasetMeta("bad", "memory"),
        )


def test_labels_beyond_the_class_names_are_refused():
    meta = DatasetMeta("shapes", "drawn", class_names=("circle", "square"))
    images = np.zeros((3, 1, 4, 4), np.uint8)
    with pytest.raises(DataError, match="labels go up to 2 but there are 2 class names"):
        ImageDataset(images, np.array([0, 1, 2]), {"train": np.arange(3)}, meta)
