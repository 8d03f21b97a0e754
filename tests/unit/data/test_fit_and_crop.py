"""Which part of an image is kept: central square, padding, boxes, named crops."""

import numpy as np
import pytest
from PIL import Image

from transop.config import Settings, settings_from_tree
from transop.data import load_dataset, load_run_data
from transop.errors import DataError, SettingsError, UserError

RANDOM = np.random.default_rng(0)


def folder_of(tmp_path, images):
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number:02}.png")
    return tmp_path


@pytest.mark.parametrize("shape", [(20, 12), (12, 20)])
@pytest.mark.parametrize("kind", ["array", "folder"])
def test_padding_keeps_the_whole_image(tmp_path, shape, kind):
    images = RANDOM.integers(1, 256, (12, *shape), dtype=np.uint8)
    source = images if kind == "array" else folder_of(tmp_path, images)
    padded = load_dataset(source, fit="pad", image_size=20).images
    assert padded.shape == (12, 1, 20, 20)
    inside = (slice(None), slice(4, 16)) if shape == (20, 12) else (slice(4, 16), slice(None))
    expected = sorted(int(image.sum()) for image in images)
    assert sorted(int(image[0][inside].sum()) for image in padded) == expected
    assert sorted(int(image.sum()) for image in padded) == expected  # black elsewhere


def test_padding_and_cropping_of_squares_change_nothing():
    images = RANDOM.integers(0, 256, (12, 10, 10), dtype=np.uint8)
    one, other = (load_dataset(images, fit=fit) for fit in ("crop", "pad"))
    np.testing.assert_array_equal(one.images, other.images)


@pytest.mark.parametrize("kind", ["array", "folder"])
def test_a_box_is_given_in_shares(tmp_path, kind):
    images = RANDOM.integers(0, 256, (12, 20, 40), dtype=np.uint8)
    source = images if kind == "array" else folder_of(tmp_path, images)
    dataset = load_dataset(source, crop=(0.25, 0.0, 0.75, 1.0), image_size=20)
    cut = images[:, :, 10:30]
    assert sorted(map(int, dataset.images.sum((1, 2, 3)))) == sorted(map(int, cut.sum((1, 2))))


def test_the_crop_of_celeba_is_the_central_square_at_any_scale(tmp_path):
    square = Image.fromarray(RANDOM.integers(0, 256, (18, 18), dtype=np.uint8))
    square = square.resize((178, 178), Image.Resampling.BICUBIC)
    whole = Image.new("L", (178, 218))
    whole.paste(square, (0, 20))
    for size in ((178, 218), (89, 109), (64, 64)):  # the last one is squashed
        folder = tmp_path / f"{size[0]}"
        folder.mkdir()
        for number in range(10):
            whole.resize(size, Image.Resampling.BILINEAR).save(folder / f"{number}.png")
        found = load_dataset(folder, crop="celeba", image_size=32).images[0, 0]
        expected = np.asarray(square.resize((32, 32), Image.Resampling.BILINEAR))
        error = np.abs(found.astype(float) - expected)[2:-2].mean()
        assert error < 6, (size, error)
        wrong = load_dataset(folder, image_size=32).images[0, 0]
        if size == (64, 64):
            assert np.abs(wrong.astype(float) - expected)[2:-2].mean() > 3 * error


def test_images_of_256_pixels_are_kept(tmp_path):
    images = RANDOM.integers(0, 256, (10, 256, 256), dtype=np.uint8)
    assert load_dataset(images).image_size == 256
    assert load_dataset(folder_of(tmp_path, images), image_size=256).image_size == 256


@pytest.mark.parametrize(
    "crop", [0, -3, True, "nobody", (0.5, 0, 0.5, 1), (0, 0, 1), (0, 0, 2, 1), 2.5]
)
def test_an_impossible_crop_is_refused(crop):
    with pytest.raises(DataError, match="crop = "):
        load_dataset(np.zeros((10, 8, 8), np.uint8), crop=crop)


def test_a_crop_larger_than_the_images_and_an_unknown_fit_are_refused():
    with pytest.raises(DataError, match="crop=9 does not fit into images of 8 x 8"):
        load_dataset(np.zeros((10, 8, 8), np.uint8), crop=9)
    with pytest.raises(UserError, match="fit = 'stretch' is unknown; choose one of 'crop', 'pad'"):
        load_dataset(np.zeros((10, 8, 8), np.uint8), fit="stretch")


def test_settings_decide_fit_crop_and_split(tmp_path):
    images = RANDOM.integers(0, 256, (30, 30, 18), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", x_train=images[:20], x_test=images[20:])
    tree = {"source": str(tmp_path / "x.npz"), "crop": [0.0, 0.0, 1.0, 0.6], "split": "random"}
    dataset = load_run_data(settings_from_tree({"data": tree}, Settings))
    np.testing.assert_array_equal(dataset.images[:, 0], images[:, :18])
    assert [len(rows) for rows in dataset.splits.values()] == [24, 3, 3]
    own = load_run_data(settings_from_tree({"data": {"source": tree["source"]}}, Settings))
    assert [len(rows) for rows in own.splits.values()] == [20, 10]
    for wrong in ({"crop": "nobody"}, {"crop": 0}, {"fit": "stretch"}, {"split": "mine"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            settings_from_tree({"data": wrong}, Settings)


def test_a_data_set_that_is_loaded_already_is_not_cropped_again():
    images = RANDOM.integers(1, 256, (30, 30, 18), dtype=np.uint8)
    settings = settings_from_tree({"data": {"crop": [0.0, 0.0, 1.0, 0.6]}}, Settings)
    once = load_run_data(settings, dataset=images)
    assert load_run_data(settings, dataset=once) is once
    assert load_dataset(once, crop=6).image_size == 6  # but on request it is
    padded = settings_from_tree({"data": {"fit": "pad"}}, Settings)
    twice = load_run_data(padded, dataset=load_run_data(padded, dataset=images))
    assert (twice.images.sum((1, 2, 3)) == images.sum((1, 2))).all()


def test_labels_can_be_given_to_a_data_set_that_is_loaded_already():
    dataset = load_dataset(np.zeros((10, 8, 8), np.uint8))
    assert load_dataset(dataset, labels=np.arange(10) % 2).n_classes == 2
    with pytest.raises(DataError, match="9 entries for 10 images"):
        load_dataset(dataset, labels=np.zeros(9, np.int64))


def test_a_split_that_only_celeba_has_is_refused_elsewhere():
    with pytest.raises(DataError, match="split='official' does not exist for data set 'array'"):
        load_dataset(np.zeros((10, 8, 8), np.uint8), split="official")
