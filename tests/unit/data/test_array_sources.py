"""Arrays, tensors, .npy and .npz files as data sets."""

import logging
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from transop.data import ImageDataset, load_dataset, require_trainable
from transop.errors import DataError, UserError

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (30, 12, 12), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (30, 12, 12, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY.reshape(30, 144), GREY[:, None]),
        (COLOUR, COLOUR.transpose(0, 3, 1, 2)),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR.transpose(0, 3, 1, 2)),
        (GREY.astype(np.float32), GREY[:, None]),
        (GREY / 255.0, GREY[:, None]),
        (GREY.astype(np.int64), GREY[:, None]),
        (GREY.astype(np.uint16) * 257, GREY[:, None]),
        (GREY > 127, np.where(GREY > 127, 255, 0)[:, None]),
        (torch.from_numpy(GREY).float() / 255, GREY[:, None]),
        (torch.from_numpy(GREY), GREY[:, None]),
    ],
)
def test_every_usual_layout_and_range_becomes_the_same_bytes(array, expected):
    np.testing.assert_array_equal(load_dataset(array).images, expected)


def test_bytes_are_not_copied():
    assert np.shares_memory(load_dataset(GREY).images, GREY)


def test_transparency_is_laid_over_white():
    rgba = np.zeros((10, 6, 6, 4), np.uint8)
    rgba[:5, ..., 3] = 255
    images = load_dataset(rgba).images
    assert (images[:5] == 0).all()
    assert (images[5:] == 255).all()


def test_whole_numbers_zero_and_one_are_black_and_white(caplog):
    images = load_dataset((GREY > 127).astype(np.uint8)).images
    assert set(np.unique(images)) == {0, 255}
    assert "only 0 and 1" in caplog.text


def test_oblong_images_keep_their_central_square():
    wide = np.zeros((12, 8, 16), np.uint8)
    wide[:, :, 4:12] = GREY[:12, :8, :8]
    np.testing.assert_array_equal(load_dataset(wide).images[:, 0], GREY[:12, :8, :8])


def test_an_image_dataset_passes_through_unchanged():
    dataset = load_dataset(GREY)
    assert load_dataset(dataset) is dataset


def test_size_and_channels_are_converted_on_request():
    dataset = load_dataset(GREY, image_size=16, channels=3)
    assert dataset.image_shape == (3, 16, 16)
    np.testing.assert_array_equal(dataset.images[:, 0], dataset.images[:, 2])
    constant = load_dataset(np.full((10, 8, 8), 77, np.uint8), image_size=5).images
    assert (constant == 77).all()


def test_colour_becomes_grey_by_luminance():
    red = np.zeros((10, 4, 4, 3), np.uint8)
    red[..., 0] = 200
    assert (load_dataset(red, channels=1).images == round(200 * 0.299)).all()


def broken(array, value):
    changed = array.astype(np.float64)
    changed[3, 2, 1] = value
    return changed


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}, {}]), "object array"),
        (np.array([["a", "b"]]), "has type <U1"),
        (GREY.astype(np.complex64), "complex64"),
        (broken(GREY, np.nan), "NaN or infinity"),
        (broken(GREY, np.inf), "NaN or infinity"),
        (GREY / 127.5 - 1, r"\(x \+ 1\) / 2"),
        (GREY.astype(np.int32) * 9, "use 0 to 255 or 0 to 1"),
        (np.zeros((5, 6, 7, 8, 9), np.uint8), "no stack of images"),
        (np.zeros((28, 28), np.uint8), "leading axis"),
        (np.zeros((5, 2, 8, 8), np.uint8), "1, 3 or 4 channels"),
        (np.zeros((0, 8, 8), np.uint8), "holds no pixels"),
        (np.float32(3.0), "no stack of images"),
        ([np.zeros((3, 3)), np.zeros((4, 4))], "the same shape"),
    ],
)
def test_nonsense_arrays_are_refused_with_their_own_message(array, message):
    with pytest.raises(DataError, match=message):
        load_dataset(array)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.linspace(0, 1, 30), "not integers"),
        (np.array(["cat"] * 30), "not integers"),
        (np.array([None] * 30), "not integers"),
        (np.eye(30, 3), "argmax"),
        (np.zeros(29, int), "29 entries for 30 images"),
        (np.full(30, -1), "from 0"),
        (np.full(30, 10**12), "from 0"),
        (np.full(30, np.inf), "from 0"),
    ],
)
def test_nonsense_labels_are_refused_with_their_own_message(labels, message):
    with pytest.raises(DataError, match=message):
        load_dataset(GREY, labels=labels)


def test_whole_float_labels_are_class_numbers():
    dataset = load_dataset(GREY, labels=torch.arange(30).float() % 3)
    assert dataset.n_classes == 3
    assert dataset.labels.dtype == np.int64


@pytest.mark.parametrize("size", [0, -1, 3, 5000, 2.5, True, "28"])
def test_an_impossible_image_size_is_refused(size):
    with pytest.raises(UserError, match=r"image_size = .* must be a whole number from 4 to 1024"):
        load_dataset(GREY, image_size=size)


def test_impossible_channels_are_refused():
    with pytest.raises(DataError, match="channels = 2 is impossible"):
        load_dataset(GREY, channels=2)


@pytest.mark.parametrize(
    ("array", "labels", "note"),
    [
        (GREY[:2], None, "only 2 images"),
        (np.repeat(GREY[:1], 2, axis=0), None, "all 2 images are identical"),
        (np.repeat(GREY[:1], 20, axis=0), None, "all 20 images are identical"),
        (np.concatenate([GREY, np.full((3, 12, 12), 9, np.uint8)]), None, "3 of 33 .* constant"),
        (GREY, np.zeros(30), "one class only"),
        (GREY, np.arange(30) // 29, "class 1 is absent from the (validation|test) split"),
    ],
)
def test_odd_but_usable_data_is_noted_and_logged(array, labels, note, caplog):
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset(array, labels=labels)
    assert any(re.search(note, found) for found in dataset.meta.notes)
    assert re.search(note, caplog.text)


@pytest.mark.parametrize("array", [GREY[:2], np.repeat(GREY[:1], 20, axis=0)])
def test_data_nothing_can_be_learned_from_is_refused_for_training(array):
    dataset = load_dataset(array)
    with pytest.raises(DataError, match=r"2 images|identical"):
        require_trainable(dataset)


def test_ordinary_data_is_trainable():
    require_trainable(load_dataset(GREY))


def test_a_npy_file_of_bytes_stays_memory_mapped(tmp_path):
    np.save(tmp_path / "x.npy", GREY)
    dataset = load_dataset(tmp_path / "x.npy", labels=np.arange(30) % 2)
    assert isinstance(dataset.images, np.memmap)
    np.testing.assert_array_equal(dataset.images[:, 0], GREY)
    assert dataset.batch([0, 1]).shape == (2, 1, 12, 12)


def test_a_npz_file_brings_images_and_labels(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", images=COLOUR, labels=np.arange(30) % 5)
    dataset = load_dataset(str(tmp_path / "x.npz"))
    assert dataset.image_shape == (3, 12, 12)
    assert dataset.n_classes == 5


def test_a_npz_file_with_parts_fixes_the_splits(tmp_path):
    labels = np.arange(30) % 5
    np.savez(
        tmp_path / "x.npz",
        x_train=GREY[:20],
        y_train=labels[:20],
        x_test=GREY[20:],
        y_test=labels[20:],
    )
    dataset = load_dataset(tmp_path / "x.npz")
    np.testing.assert_array_equal(dataset.splits["test"], np.arange(20, 30))
    np.testing.assert_array_equal(dataset.labels, labels)


def test_a_single_array_of_any_name_is_the_images(tmp_path):
    np.savez(tmp_path / "x.npz", whatever=GREY)
    assert len(load_dataset(tmp_path / "x.npz")) == 30


def test_a_npz_file_without_images_lists_what_it_has(tmp_path):
    np.savez(tmp_path / "x.npz", first=GREY, second=GREY)
    with pytest.raises(DataError, match=r"first, second.*np\.savez"):
        load_dataset(tmp_path / "x.npz")


class Bomb:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('code was executed')",))


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickles_are_refused_and_never_executed(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    array = np.array([Bomb()], dtype=object)
    np.save(path, array) if suffix == "npy" else np.savez(path, images=array)
    with pytest.raises(DataError, match="object array or a pickle"):
        load_dataset(path)


def test_a_bare_pickle_is_refused(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="pickle"):
        load_dataset(path)


def load_or_refuse(source) -> ImageDataset | str:
    """Any exception but a DataError with a message fails the test."""
    try:
        return load_dataset(source)
    except DataError as error:
        return str(error)


def damaged(original: bytes, cut: int, place: int, byte: int) -> bytes:
    content = bytearray(original[: cut % (len(original) + 1)])
    if content:
        content[place % len(content)] ^= byte
    return bytes(content)


def file_bytes(tmp_path_factory, name: str, **arrays: np.ndarray) -> bytes:
    path = tmp_path_factory.mktemp("original") / name
    if name.endswith("npy"):
        np.save(path, arrays["images"])
    else:
        np.savez_compressed(path, **arrays)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_damaged_numpy_files_give_an_image_dataset_or_a_data_error(name, tmp_path_factory):
    original = file_bytes(tmp_path_factory, name, images=GREY, labels=np.arange(30) % 3)
    folder = tmp_path_factory.mktemp("damaged")

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 255))
    def check(cut, place, byte):
        (folder / name).write_bytes(damaged(original, cut, place, byte))
        assert load_or_refuse(folder / name)

    check()


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(
        st.one_of(
            hnp.integer_dtypes(endianness="?"),
            hnp.floating_dtypes(endianness="?"),
            hnp.boolean_dtypes(),
            hnp.unsigned_integer_dtypes(),
        ),
        hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=7),
    )
)
def test_any_array_gives_an_image_dataset_or_a_data_error(array):
    outcome = load_or_refuse(array)
    if isinstance(outcome, ImageDataset):
        batch = outcome.batch(slice(None))
        assert batch.min() >= 0
        assert batch.max() <= 1
