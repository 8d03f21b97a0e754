"""Data and settings that make no sense are refused, or noted, in words of their own.

The readers themselves are tested where they are; here is what a user who wants to train is told.
"""

import io
import logging
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset, load_dataset, load_run_data
from transop.data.picture import UnreadablePicture, read_picture
from transop.errors import DataError, SettingsError, UserError
from transop.training import train
from transop.training.fit import wanted_phases

DIGITS = np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8)


class Tripwire:
    """Leaves a mark if it is ever unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Tripwire, "sprung", True))


def save_npz(folder, **arrays):
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


def save_zip(folder, name, content=b"x"):
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return folder / "x.zip"


def object_array(folder):
    return save_npz(folder, images=np.array([Tripwire(), None], dtype=object))


def pickle_called_npz(folder):
    (folder / "x.npz").write_bytes(pickle.dumps(Tripwire()))
    return folder / "x.npz"


def with_nan(folder):
    images = DIGITS / 255
    images[3, 0, 0] = np.nan
    return save_npz(folder, images=images)


REFUSED = {
    "an object array": (object_array, "object array or a pickle"),
    "a pickle": (pickle_called_npz, "no zip archive"),
    "path traversal": (lambda f: save_zip(f, "../../x.png"), "path traversal"),
    "a zip bomb": (lambda f: save_zip(f, "x.png", bytes(2**28 + 1)), "zip bomb"),
    "NaN": (with_nan, "NaN or infinity"),
    "labels that are words": (
        lambda f: save_npz(f, images=DIGITS, labels=np.array(["a"] * 40)),
        "labels .* are not integers",
    ),
    "labels between integers": (
        lambda f: save_npz(f, images=DIGITS, labels=np.arange(40) / 2),
        "labels .* are not integers",
    ),
    "two images in all": (lambda f: save_npz(f, images=DIGITS[:2]), "only 2 images"),
    "images that are all identical": (
        lambda f: save_npz(f, images=np.repeat(DIGITS[:1], 40, 0)),
        "identical",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_data_nothing_can_be_learned_from_never_starts_a_run(tmp_path, make, message):
    settings = load_settings("demo", [f"data.source={str(make(tmp_path))!r}"])
    with pytest.raises(DataError, match=message):
        load_run_data(settings)
    assert not Tripwire.sprung


NOTED = {
    "a constant image": (np.concatenate([DIGITS[:20], np.full_like(DIGITS[:1], 7)]), None),
    "one class only": (DIGITS, np.full(40, 3)),
    "a class absent from a split": (DIGITS, np.where(np.arange(40) == 5, 1, 0)),
}
NOTES = ("constant", "one class only", "absent from the")


@pytest.mark.parametrize(("case", "note"), list(zip(NOTED.values(), NOTES, strict=True)))
def test_odd_data_is_used_and_the_user_is_told(case, note, caplog):
    images, labels = case
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset(images, labels=labels)
    assert note in caplog.text
    assert any(note in line for line in dataset.meta.notes)


def test_one_class_leaves_out_what_needs_two(caplog):
    dataset = load_dataset(DIGITS, labels=np.full(40, 3))
    with caplog.at_level(logging.WARNING):
        phases = wanted_phases(load_settings("demo"), dataset)
    assert list(phases) == ["autoencoder", "operators", "fine_tuning"]
    assert "too few images for a neighbour graph" in caplog.text


@pytest.mark.parametrize(
    ("n_images", "dimension", "remedy"),
    [(40, 33, "32 training images.*at most 32"), (400, 257, "256 pixels.*at most 256")],
)
def test_more_latent_dimensions_than_data_are_refused(n_images, dimension, remedy):
    images = np.random.default_rng(0).integers(0, 256, (n_images, 1, 16, 16), np.uint8)
    splits = {"train": np.arange(n_images * 4 // 5)}
    dataset = ImageDataset(images, None, splits, DatasetMeta("noise", "drawn"))
    settings = load_settings("demo", [f"autoencoder.latent_dimension={dimension}"])
    with pytest.raises(DataError, match=f"latent_dimension = {dimension}.*{remedy}"):
        load_run_data(settings, dataset=dataset)


def test_zero_operators_are_refused_with_the_alternative():
    with pytest.raises(SettingsError, match=r"n_operators = 0 .*operators.epochs = 0"):
        load_settings("demo", ["operators.n_operators=0"])


def picture(kind, mode="RGB", **options):
    stream = io.BytesIO()
    image = Image.fromarray(np.stack([DIGITS[0]] * 3, -1)).convert(mode)
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a picture at all", "it is no picture, or of a kind that is not read"),
        (picture("PNG")[:200], "it is cut short"),
        (picture("JPEG")[:300], "it is cut short"),
        (b"", "it is no picture"),
    ],
)
def test_an_unreadable_picture_is_described_in_plain_words(content, message):
    with pytest.raises(UnreadablePicture, match=message) as caught:
        read_picture(io.BytesIO(content), 16, 3)
    assert "BytesIO" not in str(caught.value)


PICTURES = {
    "cmyk.jpg": picture("JPEG", "CMYK"),
    "palette.png": picture("PNG", "P"),
    "animated.gif": picture(
        "GIF", "P", save_all=True, append_images=[Image.new("P", (16, 16))], loop=0
    ),
    "black and white.png": picture("PNG", "1"),
    "transparent.webp": picture("WEBP", "RGBA", lossless=True),
}


def test_unusual_pictures_are_images_like_any_other(tmp_path):
    for name, content in PICTURES.items():
        (tmp_path / name).write_bytes(content)
    deep = Image.fromarray(DIGITS[0].astype(np.uint16) * 257)
    deep.save(tmp_path / "deep.png")
    turned = Image.fromarray(DIGITS[0])
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    dataset = load_dataset(tmp_path, image_size=16, channels=1)
    assert len(dataset) == len(PICTURES) + 2
    images = {name: dataset.images[i, 0] for i, name in enumerate(sorted(_names(tmp_path)))}
    np.testing.assert_array_equal(images["deep.png"], DIGITS[0])
    np.testing.assert_array_equal(images["turned.png"], np.rot90(DIGITS[0], -1))


def _names(folder):
    return [file.name for file in folder.iterdir()]


def test_a_refused_run_leaves_nothing_that_looks_like_one(tmp_path):
    settings = load_settings("demo", [f"data.source={str(with_nan(tmp_path))!r}"])
    with pytest.raises(UserError):
        train(settings, RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "checkpoints").exists()
