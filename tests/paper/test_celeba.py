import logging
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transop.data import ImageDataset, load_dataset, pictures
from transop.errors import DataError
from transop_paper import celeba as celeba_module
from transop_paper.celeba import parse_attributes
from transop_paper.faces import write_faces

N_IMAGES = 20


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_faces(tmp_path_factory.mktemp("celeba") / "published", N_IMAGES, size=(44, 36))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "celeba"))


def load(path: Path, **wishes: object) -> ImageDataset:
    cache = path.parent / "cache"
    return load_dataset("celeba", path=path, cache_dir=cache, **{"image_size": 16, **wishes})


def zip_images(folder: Path) -> Path:
    archive = folder / "img_align_celeba.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((folder / "img_align_celeba").iterdir()):
            file.write(path, f"img_align_celeba/{path.name}")
    shutil.rmtree(folder / "img_align_celeba")
    return archive


def test_images_are_cropped_to_the_central_square_and_resized(folder: Path) -> None:
    dataset = load(folder)
    assert dataset.image_shape == (3, 16, 16)
    with Image.open(folder / "img_align_celeba" / "000003.jpg") as picture:
        square = picture.convert("RGB").crop((0, 4, 36, 40))
    expected = np.asarray(square.resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(dataset.images[2], expected)


def test_a_narrower_crop_shows_less(folder: Path) -> None:
    dataset = load(folder, crop=20)
    with Image.open(folder / "img_align_celeba" / "000001.jpg") as picture:
        square = picture.convert("RGB").crop((8, 12, 28, 32))
    expected = np.asarray(square.resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(dataset.images[0], expected)
    with pytest.raises(DataError, match="crop=99 does not fit into images of 36 x 44"):
        load(folder, crop=99)


def test_attributes_and_official_parts_are_read_as_published(folder: Path) -> None:
    dataset = load(folder, split="official")
    assert dataset.attributes is not None
    assert dataset.attributes.shape == (N_IMAGES, 40)
    assert set(np.unique(dataset.attributes)) == {-1, 1}
    lengths = {name: len(rows) for name, rows in dataset.splits.items()}
    assert lengths == {"train": 16, "validation": 2, "test": 2}


def test_the_papers_split_stops_after_its_training_images(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(celeba_module, "PAPER_TRAIN", 10)
    dataset = load(folder)
    assert dataset.splits["train"].tolist() == list(range(10))
    assert dataset.splits["validation"].tolist() == [16, 17]
    assert dataset.splits["test"].tolist() == [18, 19]
    with pytest.raises(
        DataError, match="split='mine' does not exist for data set 'celeba'; choose one of paper"
    ):
        load(folder, split="mine")


def test_the_zip_gives_the_same_images_as_the_folder(folder: Path) -> None:
    unpacked = np.array(load(folder).images)
    archive = zip_images(folder)
    assert np.array_equal(load(folder).images, unpacked)  # the folder that holds the zip
    assert np.array_equal(load(archive).images, unpacked)  # the zip itself


def test_the_publishers_subfolders_are_known(folder: Path) -> None:
    for name, inside in (("list_attr_celeba.txt", "Anno"), ("list_eval_partition.txt", "Eval")):
        (folder / inside).mkdir()
        (folder / name).rename(folder / inside / name)
    (folder / "Img").mkdir()
    archive = zip_images(folder).rename(folder / "Img" / "img_align_celeba.zip")
    assert len(load(folder)) == N_IMAGES
    assert len(load(archive)) == N_IMAGES


def test_pixels_are_decoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "IN_MEMORY_BYTES", 0)
    announced: list[str] = []

    def progress(items, description, total=None):  # type: ignore[no-untyped-def]
        announced.append(description)
        yield from items

    first = load(folder, progress=progress)
    again = load(folder, progress=progress)
    assert announced == ["reading images of celeba"]
    assert isinstance(again.images, np.memmap)
    assert np.array_equal(first.images, again.images)


def test_a_replaced_image_is_decoded_again(folder: Path) -> None:
    before = np.array(load(folder).images)
    shutil.copy(
        folder / "img_align_celeba" / "000002.jpg", folder / "img_align_celeba" / "000001.jpg"
    )
    after = load(folder).images
    assert not np.array_equal(before[0], after[0])
    assert np.array_equal(after[0], after[1])


def test_a_truncated_jpeg_is_left_out_counted_and_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = load(folder)
    victim = folder / "img_align_celeba" / "000005.jpg"
    victim.write_bytes(victim.read_bytes()[:-200])
    (folder / "img_align_celeba" / "000007.jpg").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        dataset = load(folder)
    assert len(dataset) == N_IMAGES - 2
    assert any(
        "2 of 20 files are unreadable and left out: 000005.jpg: it is cut short; 000007" in note
        for note in dataset.meta.notes
    )
    assert "left out 000005.jpg" in caplog.text
    kept = [i for i in range(N_IMAGES) if i not in (4, 6)]
    assert whole.attributes is not None
    assert whole.factors is not None
    assert np.array_equal(dataset.images, whole.images[kept])
    assert np.array_equal(dataset.attributes, whole.attributes[kept])
    assert np.array_equal(dataset.factors, whole.factors[kept])
    assert dataset.splits["test"].tolist() == [16, 17]
    assert load(folder).meta.notes == dataset.meta.notes  # also from the cache


def test_a_missing_partition_file_is_named_with_its_remedy(folder: Path) -> None:
    (folder / "list_eval_partition.txt").unlink()
    with pytest.raises(DataError, match=r"list_eval_partition\.txt is missing .* get it from http"):
        load(folder)


def test_a_missing_attribute_file_is_named_with_its_remedy(folder: Path) -> None:
    (folder / "list_attr_celeba.txt").unlink()
    with pytest.raises(DataError, match=r"list_attr_celeba\.txt is missing .*folder Anno"):
        load(folder)


def test_missing_images_are_counted_and_the_first_is_named(folder: Path) -> None:
    (folder / "img_align_celeba" / "000011.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 20 images .* are missing .*first: 000011\.jpg"):
        load(folder)
    shutil.rmtree(folder / "img_align_celeba")
    with pytest.raises(
        DataError, match=r"img_align_celeba/ or img_align_celeba\.zip\) are missing"
    ):
        load(folder)


def test_no_folder_at_all_says_how_to_get_the_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="licence forbids us to fetch it: get it from http"):
        load_dataset("celeba", cache_dir=tmp_path)


def test_a_quota_page_saved_as_zip_is_recognised(folder: Path) -> None:
    archive = zip_images(folder)
    archive.write_text("<!DOCTYPE html><html><title>Google Drive - Quota exceeded</title></html>")
    with pytest.raises(DataError, match="'quota exceeded' page saved under the name of the zip"):
        load(folder)


def test_half_a_zip_is_told_apart_from_a_quota_page(folder: Path) -> None:
    archive = zip_images(folder)
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"is no complete zip file \(2,000 bytes"):
        load(archive)


def edit_attributes(folder: Path, number: int, old: str, new: str) -> None:
    path = folder / "list_attr_celeba.txt"
    lines = path.read_text().splitlines()
    lines[number] = lines[number].replace(old, new, 1)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("line", "old", "new", "message"),
    [
        (5, " -1", "", r"39 attribute values for 000004\.jpg \(row 4\) instead of 40"),
        (5, " -1", " 0", "attribute value '0' for 000004.jpg; use -1 or 1"),
        (1, "Young", "", "names 39 attributes on line 2, CelebA has 40"),
        (0, "20", "21", "announces 21 images but lists 20"),
        (0, "20", "many", "does not begin with the number of images"),
    ],
)
def test_a_wrong_attribute_table_says_what_is_wrong(
    folder: Path, line: int, old: str, new: str, message: str
) -> None:
    edit_attributes(folder, line, old, new)
    with pytest.raises(DataError, match=message):
        load(folder)


def test_a_wrong_partition_says_what_is_wrong(folder: Path) -> None:
    path = folder / "list_eval_partition.txt"
    rows = path.read_text().splitlines()
    path.write_text("\n".join(rows[:-3]))
    with pytest.raises(DataError, match=r"which part 3 of 20 images belong \(first: 000018\.jpg\)"):
        load(folder)
    path.write_text("\n".join(["000001.jpg 7", *rows[1:]]))
    with pytest.raises(DataError, match=r"line 1 is '000001\.jpg 7'"):
        load(folder)


def test_the_published_spacing_of_the_attribute_table_is_read() -> None:
    names = " ".join(f"Name_{i}" for i in range(40))
    text = f"1\n{names} \n000001.jpg" + " -1  1" * 20 + "\n"
    files, _, values = parse_attributes(text)
    assert files == ("000001.jpg",)
    assert values[0].tolist() == [-1, 1] * 20
