"""Data sets of torch and Hugging Face, lists of images, and our own as a torch data set."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

from transop.data import ImageDataset, load_dataset
from transop.errors import DataError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (20, 12, 12, 3), dtype=np.uint8)
LABELS = np.arange(20) % 2


class Pictures(Dataset):
    """Like torchvision's: pillow images with labels, and names of the classes."""

    classes = ("cat", "dog")

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(IMAGES[index]), int(LABELS[index])


class ClassLabel:
    """The column type of Hugging Face data sets that carries names."""

    names = ("cat", "dog")


class Rows:
    """A Hugging Face data set: items are dictionaries, columns have features."""

    column_names = ("image", "label")

    def __init__(self, images, labels):
        self.images, self.labels = images, labels
        self.features = {"image": object(), "label": ClassLabel()}

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        return {"image": Image.fromarray(self.images[index]), "label": self.labels[index]}


def channels_first(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("source", [Pictures(), Rows(IMAGES, LABELS.tolist())])
def test_pictures_with_labels_are_read(source):
    dataset = load_dataset(source)
    np.testing.assert_array_equal(dataset.images, channels_first(IMAGES))
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.meta.class_names == ("cat", "dog")
    assert set(dataset.splits) == {"train", "validation", "test"}


def test_a_torch_data_set_of_tensors_is_read_with_and_without_labels():
    images = torch.rand(20, 1, 12, 12)
    alone = load_dataset(TensorDataset(images))
    assert alone.labels is None
    np.testing.assert_allclose(alone.images / 255, images.numpy(), atol=0.003)
    labelled = load_dataset(TensorDataset(images, torch.from_numpy(LABELS)))
    np.testing.assert_array_equal(labelled.labels, LABELS)


def test_a_mapping_of_splits_keeps_them():
    source = {"train": Rows(IMAGES[:14], LABELS[:14]), "test": Rows(IMAGES[14:], LABELS[14:])}
    dataset = load_dataset(source, image_size=8)
    assert {name: len(rows) for name, rows in dataset.splits.items()} == {"train": 14, "test": 6}
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.image_shape == (3, 8, 8)
    with pytest.raises(DataError, match="use 'train', and 'validation'"):
        load_dataset({"part": Rows(IMAGES, LABELS)})


def test_arrays_by_split_are_read():
    dataset = load_dataset({"train": IMAGES[:14], "validation": IMAGES[14:]})
    assert dataset.labels is None
    assert len(dataset.splits["validation"]) == 6


def test_labels_of_minus_one_mean_none_and_a_mixture_is_refused():
    assert load_dataset(Rows(IMAGES, [-1] * 20)).labels is None
    with pytest.raises(DataError, match="1 of 20 items have no label"):
        load_dataset(Rows(IMAGES, [-1, *LABELS[1:]]))
    with pytest.raises(DataError, match="item 3 has the label 'cat'"):
        load_dataset(Rows(IMAGES, [0, 0, 0, "cat"] + [0] * 16))


def test_a_list_of_pictures_of_several_sizes_becomes_one_size():
    pictures = [Image.fromarray(IMAGES[i][: 8 + i % 3]) for i in range(12)]
    dataset = load_dataset(pictures)
    assert dataset.image_shape == (3, 8, 8)
    assert dataset.labels is None
    mixed = [Image.new("L", (9, 9)), Image.new("RGBA", (12, 9))]
    assert load_dataset(mixed, image_size=16).image_shape == (3, 16, 16)


def test_items_of_several_shapes_need_a_size():
    items = [(np.zeros((8, 8 + i % 2), np.uint8) + i, 0) for i in range(12)]
    with pytest.raises(DataError, match="pass image_size"):
        load_dataset(items)
    assert load_dataset(items, image_size=8).image_shape == (1, 8, 8)


def test_a_crop_is_applied_once():
    pictures = [(Image.fromarray(image), 0) for image in IMAGES]
    dataset = load_dataset(pictures, crop=6)
    np.testing.assert_array_equal(dataset.images, channels_first(IMAGES[:, 3:9, 3:9]))


@pytest.mark.parametrize("source", [object(), 3, iter([1]), DataLoader(Pictures())])
def test_what_cannot_be_read_is_named(source):
    with pytest.raises(DataError, match=type(source).__name__):
        load_dataset(source)


def test_an_empty_or_imageless_data_set_is_refused():
    with pytest.raises(DataError, match="has no items"):
        load_dataset(TensorDataset(torch.zeros(0, 1, 8, 8)))

    class Texts(Rows):
        def __getitem__(self, index):
            return {"text": "hello", "label": 0}

    with pytest.raises(DataError, match="'text', 'label' but no image"):
        load_dataset(Texts(IMAGES, LABELS))


def test_real_hugging_face_data_sets_are_read():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    columns = {"image": [Image.fromarray(image) for image in IMAGES], "label": LABELS.tolist()}
    rows = datasets.Dataset.from_dict(columns, features=features)
    dataset = load_dataset(rows)
    np.testing.assert_array_equal(dataset.images, channels_first(IMAGES))
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.meta.class_names == ("cat", "dog")
    parts = datasets.DatasetDict({"train": rows, "test": rows})
    assert len(load_dataset(parts).splits["test"]) == 20
    rows.set_format("torch")
    assert load_dataset(rows).content_hash() == dataset.content_hash()


def test_an_image_dataset_is_a_torch_data_set():
    labelled = load_dataset(IMAGES, labels=LABELS)
    image, label = labelled[3]
    assert torch.equal(image, labelled.batch([3])[0])
    assert label == LABELS[3]
    assert torch.equal(labelled[-1][0], labelled[19][0])
    with pytest.raises(IndexError, match="index=20 is outside"):
        labelled[20]
    assert len(list(labelled)) == 20
    images, labels = next(iter(DataLoader(labelled, batch_size=20)))
    torch.testing.assert_close(images, labelled.batch(slice(None)))
    assert labels.tolist() == LABELS.tolist()
    assert load_dataset(IMAGES)[0][1] == -1


def test_an_image_dataset_read_item_by_item_is_the_same(monkeypatch):
    dataset = load_dataset(IMAGES)

    class Wrapped(Dataset):
        def __len__(self):
            return len(dataset)

        def __getitem__(self, index):
            return dataset[index]

    again = load_dataset(Wrapped())
    assert isinstance(again, ImageDataset)
    assert again.content_hash() == dataset.content_hash()
