"""Image files of every kind, in folders and zip archives."""

import gc
import io
import logging
import os
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from transop.data import ImageDataset, load_dataset, picture, pictures
from transop.errors import DataError

RANDOM = np.random.default_rng(0)


def noise(size=(20, 20), mode="RGB") -> Image.Image:
    pixels = RANDOM.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(content: bytes, size: int = 20, channels: int = 3) -> np.ndarray:
    return picture.read_picture(io.BytesIO(content), size, channels)


def fill(root: Path, names: list[str], size=(20, 20), mode="RGB") -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise(size, mode).save(path)
    return root


def test_subfolders_are_classes(tmp_path):
    fill(tmp_path, [f"{kind}/{i}.png" for kind in ("dog", "cat") for i in range(10)])
    dataset = load_dataset(tmp_path)
    assert dataset.meta.class_names == ("cat", "dog")
    assert np.bincount(dataset.labels).tolist() == [10, 10]
    assert {name: len(rows) for name, rows in dataset.splits.items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }
    assert dataset.image_shape == (3, 20, 20)


def test_images_carry_the_label_of_their_folder(tmp_path):
    for shade in (0, 100, 200):
        folder = tmp_path / f"shade{shade:03}"
        folder.mkdir()
        for i in range(7):
            Image.new("L", (16, 16), shade + i).save(folder / f"{i}.png")
    dataset = load_dataset(tmp_path)
    np.testing.assert_array_equal(dataset.images.max(axis=(1, 2, 3)) // 100, dataset.labels)


def test_images_tell_their_files_also_in_a_subset_and_beside_unreadable_ones(tmp_path):
    for shade in range(40):
        folder = tmp_path / f"class{shade % 2}"
        folder.mkdir(exist_ok=True)
        Image.new("L", (16, 16), 5 * shade).save(folder / f"{shade}.png")
    (tmp_path / "class0" / "0.png").write_bytes(b"no image")
    dataset = load_dataset(tmp_path)
    for part in (dataset, dataset.subset("train"), dataset.subset([7, 3, 5])):
        assert len(part.files) == len(part)
        for image, label, file in zip(part.images, part.labels, part.files, strict=True):
            assert file == f"class{label}/{image.max() // 5}.png"
    without = replace(dataset, files=None)
    assert without.content_hash() == dataset.content_hash()


def test_a_flat_folder_is_unlabelled_and_splits_are_stretches(tmp_path):
    dataset = load_dataset(fill(tmp_path, [f"{i}.png" for i in range(20)]))
    assert dataset.labels is None
    assert np.shares_memory(dataset.subset("train").images, dataset.images)


def test_train_and_test_folders_are_the_splits(tmp_path):
    names = [
        f"{split}/{kind}/{i}.png" for split in ("train", "test") for kind in "ab" for i in "12"
    ]
    dataset = load_dataset(fill(tmp_path, names))
    assert dataset.meta.class_names == ("a", "b")
    assert {name: len(rows) for name, rows in dataset.splits.items()} == {"train": 4, "test": 4}


def test_the_seed_decides_the_split_and_nothing_else(tmp_path):
    fill(tmp_path, [f"{i}.png" for i in range(30)])
    one, same, other = (load_dataset(tmp_path, seed=seed) for seed in (1, 1, 2))
    assert one.content_hash() == same.content_hash()
    assert one.content_hash() != other.content_hash()


def test_unreadable_files_are_listed_counted_and_left_out(tmp_path, caplog):
    fill(tmp_path, [f"{i:02}.png" for i in range(20)])
    (tmp_path / "99.png").write_bytes(b"not an image")
    (tmp_path / "98.jpg").write_bytes(encoded(noise(), "JPEG")[:200])
    (tmp_path / "97.png").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no image and no trouble")
    (tmp_path / ".hidden.png").write_bytes(b"no trouble either")
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset(tmp_path)
    assert len(dataset) == 20
    assert "3 of 23 files are unreadable" in dataset.meta.notes[0]
    for name in ("99.png", "98.jpg", "97.png"):
        assert name in caplog.text


def test_links_are_followed_but_not_in_circles(tmp_path):
    fill(tmp_path / "elsewhere", ["1.png", "2.png"])
    root = fill(tmp_path / "root", ["a/1.png", "a/2.png"])
    (root / "b").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "dead.png").symlink_to(root / "nothing")
    dataset = load_dataset(root)
    assert dataset.meta.class_names == ("a", "b")
    assert len(dataset) == 4
    assert any("dead.png" in note for note in dataset.meta.notes)


def test_a_run_inside_of_the_folder_is_not_read_as_images(tmp_path):
    fill(tmp_path, ["1.png", "2.png", "runs/mine/figures/paths.png"])
    assert len(load_dataset(tmp_path)) == 3
    for name in ("config.toml", "environment.json"):
        (tmp_path / "runs" / "mine" / name).write_text("")
    assert len(load_dataset(tmp_path)) == 2


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="contains no image files"):
        load_dataset(tmp_path)


def test_a_folder_of_rubbish_is_an_error(tmp_path):
    (tmp_path / "a.png").write_bytes(b"rubbish")
    with pytest.raises(DataError, match="none of its 1 files"):
        load_dataset(tmp_path)
    with pytest.raises(DataError, match="none of its 1 files"):
        load_dataset(tmp_path, image_size=32, channels=1)


def test_a_missing_path_suggests_a_name():
    with pytest.raises(DataError, match=r"did you mean 'fashion-mnist'\?"):
        load_dataset("fashion_mnist")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "~nobody-of-that-name/x"])
def test_impossible_names_are_refused(name):
    with pytest.raises(DataError):
        load_dataset(name)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"...")
    with pytest.raises(DataError, match="pickles are never loaded"):
        load_dataset(tmp_path / "model.pkl")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(28, 28)], 28),
        ([(128, 128)], 128),
        ([(300, 300)], 64),
        ([(40, 60), (50, 40), (48, 48)], 40),
        ([(200, 100), (90, 300), (80, 80)], 64),
        ([(5, 5)], 16),
    ],
)
def test_the_default_size_is_the_common_one_or_a_sensible_one(tmp_path, sizes, expected):
    for number, size in enumerate(sizes * 4):
        noise(size).save(tmp_path / f"{number}.png")
    assert load_dataset(tmp_path).image_size == expected


def test_grey_files_stay_grey(tmp_path):
    assert load_dataset(fill(tmp_path, ["a.png", "b.png"], mode="L")).n_channels == 1


def test_a_palette_picture_shows_its_colours():
    image = noise().quantize(16)
    expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(decoded(encoded(image)), expected)


def test_a_cmyk_picture_becomes_rgb():
    image = Image.new("CMYK", (20, 20), (0, 255, 255, 0))
    red = decoded(encoded(image, "TIFF"))
    assert (red[0] > 200).all()
    assert (red[1:] < 60).all()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_16_bit_picture_keeps_its_upper_bits(kind):
    values = RANDOM.integers(0, 65536, (20, 20)).astype(np.uint16)
    grey = decoded(encoded(Image.fromarray(values), kind), channels=1)
    np.testing.assert_allclose(grey[0], values / 257, atol=0.51)


def test_a_float_picture_counts_as_zero_to_one():
    values = np.linspace(0, 1, 400, dtype=np.float32).reshape(20, 20)
    grey = decoded(encoded(Image.fromarray(values), "TIFF"), channels=1)
    np.testing.assert_allclose(grey[0], values * 255, atol=0.51)


def test_a_float_picture_with_nan_is_unreadable():
    values = np.full((20, 20), np.nan, dtype=np.float32)
    with pytest.raises(picture.UnreadablePicture, match="NaN"):
        decoded(encoded(Image.fromarray(values), "TIFF"))


def test_an_animation_shows_its_first_frame():
    first, second = Image.new("RGB", (20, 20), "red"), Image.new("RGB", (20, 20), "blue")
    content = encoded(first, "GIF", save_all=True, append_images=[second])
    red = decoded(content)
    assert (red[0] == 255).all()
    assert (red[2] == 0).all()


def test_exif_rotation_is_undone():
    upright = Image.new("L", (20, 20), 0)
    upright.paste(255, (0, 0, 20, 10))  # white above
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn by 90 degrees clockwise to see it upright"
    stored = upright.transpose(Image.Transpose.ROTATE_90)
    content = encoded(stored, "JPEG", exif=exif.tobytes(), quality=100)
    np.testing.assert_allclose(decoded(content, channels=1)[0], np.asarray(upright), atol=8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_agrees_with_pillow(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(noise((20, 20)), "PNG", exif=exif.tobytes())
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    np.testing.assert_array_equal(decoded(content), np.asarray(expected).transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_are_white(mode):
    clear = Image.new(mode, (20, 20), (0,) * len(mode))
    assert (decoded(encoded(clear)) == 255).all()


def test_a_transparent_palette_entry_is_white():
    image = Image.new("P", (20, 20), 0)
    image.putpalette([0, 0, 0] * 256)
    assert (decoded(encoded(image, "PNG", transparency=0)) == 255).all()


def test_a_decompression_bomb_is_refused_before_decoding(monkeypatch):
    monkeypatch.setattr(picture, "MOST_PIXELS", 100)
    with pytest.raises(picture.UnreadablePicture, match="decompression bomb"):
        decoded(encoded(noise()))


def test_a_real_bomb_is_refused():
    content = bytearray(encoded(Image.new("1", (8, 8))))
    content[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height in the PNG header
    with pytest.raises(picture.UnreadablePicture):
        decoded(bytes(content))


def test_a_long_picture_is_cropped_to_its_middle():
    wide = Image.new("L", (60, 20), 0)
    wide.paste(255, (20, 0, 40, 20))
    assert (decoded(encoded(wide), size=20, channels=1) == 255).all()


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_damaged_pictures_decode_or_are_unreadable(kind):
    original = encoded(noise((12, 12)), kind)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255))))
    def check(cut, flips):
        content = bytearray(original[: cut % (len(original) + 1)])
        for place, byte in flips if content else ():
            content[place % len(content)] ^= byte
        try:
            pixels = decoded(bytes(content))
        except picture.UnreadablePicture:
            return
        assert pixels.shape == (3, 20, 20)
        assert pixels.dtype == np.uint8

    check()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_decode_or_are_unreadable(content):
    with pytest.raises(picture.UnreadablePicture):
        decoded(content)


def zip_of(path: Path, entries: dict[str, bytes], **options) -> Path:
    with zipfile.ZipFile(path, "w", **options) as target:
        for name, content in entries.items():
            target.writestr(name, content)
    return path


def some_images(n: int = 12, prefix: str = "") -> dict[str, bytes]:
    return {f"{prefix}{'ab'[i % 2]}/{i}.png": encoded(noise()) for i in range(n)}


def test_a_zip_is_read_like_a_folder(tmp_path):
    entries = some_images(prefix="my set/")
    entries["__MACOSX/my set/a/._0.png"] = b"resource fork"
    dataset = load_dataset(zip_of(tmp_path / "set.zip", entries))
    assert dataset.meta.class_names == ("a", "b")
    assert len(dataset) == 12
    assert not any("unreadable" in note for note in dataset.meta.notes)


@pytest.mark.parametrize(
    "name", ["../evil.png", "/etc/evil.png", "a/../../evil.png", "..\\evil.png"]
)
def test_path_traversal_in_a_zip_is_refused(tmp_path, name):
    path = zip_of(tmp_path / "set.zip", {**some_images(), name: encoded(noise())})
    with pytest.raises(DataError, match="path traversal"):
        load_dataset(path)


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "_HARMLESS_BYTES", 2**20)
    path = zip_of(tmp_path / "set.zip", {"a.png": bytes(2**21)}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match="zip bomb"):
        load_dataset(path)


def test_a_bomb_in_a_npz_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "_HARMLESS_BYTES", 2**20)
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((20, 512, 512), np.uint8))
    with pytest.raises(DataError, match="zip bomb"):
        load_dataset(tmp_path / "x.npz")


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link.png")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as target:
        target.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="symbolic link"):
        load_dataset(tmp_path / "set.zip")


def test_an_entry_whose_own_name_is_no_text_is_left_out(tmp_path):
    files = {f"{i}.png": encoded(noise()) for i in range(3)} | {"ü.png": encoded(noise())}
    path = zip_of(tmp_path / "set.zip", files)
    content = path.read_bytes()  # an entry says its name twice; the directory keeps the good one
    path.write_bytes(content.replace("ü.png".encode(), b"\x96\x96.png", 1))
    dataset = load_dataset(path)
    assert len(dataset) == 3
    assert any("ü.png" in note for note in dataset.meta.notes), dataset.meta.notes


def test_an_empty_zip_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no image files"):
        load_dataset(zip_of(tmp_path / "set.zip", {"readme.txt": b"hello"}))


def test_something_else_called_zip_is_refused(tmp_path):
    (tmp_path / "set.zip").write_bytes(b"PK but not really")
    with pytest.raises(DataError, match="no zip archive"):
        load_dataset(tmp_path / "set.zip")


def test_damaged_zips_give_an_image_dataset_or_a_data_error(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zips")
    original = zip_of(folder / "whole.zip", some_images(4), compression=8).read_bytes()
    path = folder / "damaged.zip"

    @settings(max_examples=80, deadline=None)
    @given(
        st.one_of(st.just(len(original)), st.integers(0, len(original))),
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=3),
    )
    def check(cut, flips):
        content = bytearray(original[:cut])
        for place, byte in flips if content else ():
            # Counted from the end: the directory there is what the reader trusts.
            content[-1 - place % len(content)] ^= byte
        path.write_bytes(content)
        try:
            dataset = load_dataset(path)
        except DataError:
            return
        assert isinstance(dataset, ImageDataset)

    check()


@pytest.fixture
def large_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "IN_MEMORY_BYTES", 10)
    root = fill(tmp_path / "images", [f"{'abc'[i % 3]}/{i:02}.png" for i in range(30)])
    (root / "a" / "bad.png").write_bytes(b"rubbish")
    return root


def test_a_large_folder_is_memory_mapped_and_equal_to_the_small_way(
    large_folder, tmp_path, monkeypatch
):
    mapped = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    assert isinstance(mapped.images, np.memmap)
    assert isinstance(mapped.subset("train").images, np.memmap)
    assert "1 of 31 files are unreadable" in mapped.meta.notes[0]
    monkeypatch.setattr(pictures, "IN_MEMORY_BYTES", 2**26)
    small = load_dataset(large_folder)
    assert not isinstance(small.images, np.memmap)
    assert mapped.content_hash() == small.content_hash()


def test_the_memory_map_is_built_once(large_folder, tmp_path, monkeypatch):
    first = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    monkeypatch.setattr(pictures, "read_picture", None)  # decoding again would fail
    second = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    assert first.content_hash() == second.content_hash()
    assert first.meta.notes == second.meta.notes


def test_a_changed_file_is_decoded_again(large_folder, tmp_path):
    first = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    noise().save(large_folder / "a" / "00.png")
    os.utime(large_folder / "a" / "00.png", ns=(1, 1))
    second = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    assert first.content_hash() != second.content_hash()


@pytest.mark.parametrize("victim", ["rows.npy", "notes.json"])
def test_a_damaged_memory_map_is_noticed_and_built_again(large_folder, tmp_path, victim):
    before = load_dataset(large_folder, cache_dir=tmp_path / "cache").content_hash()
    [path] = (tmp_path / "cache").rglob(victim)
    path.write_bytes(path.read_bytes()[:-5])
    second = load_dataset(large_folder, cache_dir=tmp_path / "cache")
    assert second.content_hash() == before
    assert len(list((tmp_path / "cache" / "pictures").iterdir())) == 1


def test_an_interrupted_build_leaves_nothing_behind(large_folder, tmp_path):
    def interrupted(items, description, total=None):
        yield next(iter(items))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_dataset(large_folder, cache_dir=tmp_path / "cache", progress=interrupted)
    assert list((tmp_path / "cache" / "pictures").iterdir()) == []


def test_a_cache_that_cannot_be_written_names_the_remedy(large_folder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="TRANSOP_CACHE"):
        load_dataset(large_folder, cache_dir=tmp_path / "file")


def test_an_archive_is_closed_when_it_has_been_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("one.png", encoded(noise()))
    np.savez(tmp_path / "some.npz", images=np.zeros((3, 8, 8), np.uint8))
    for name in ("some.zip", "some.npz"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            load_dataset(tmp_path / name)
            gc.collect()
