"""MNIST's files: read, damaged, and as a folder of one's own."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transop.data import load_dataset
from transop.errors import DataError
from transop_paper import mnist
from transop_paper.mnist import read_idx


def test_the_installed_debian_folder_is_used_when_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "_DEBIAN_FOLDER", tmp_path / "datasets")
    find = mnist._debian_folder
    assert find() is None
    (tmp_path / "datasets").mkdir()
    assert find() == tmp_path / "datasets"


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.tobytes()


IMAGES = np.random.default_rng(0).integers(0, 256, (24, 10, 10), dtype=np.uint8)


def test_an_idx_file_reads_back():
    np.testing.assert_array_equal(read_idx(io.BytesIO(idx(IMAGES)), "x"), IMAGES)


@settings(max_examples=200)
@given(st.integers(0, 10**5), st.integers(0, 30), st.integers(0, 255), st.binary(max_size=5))
def test_a_damaged_idx_file_reads_or_is_a_data_error(cut, place, byte, tail):
    content = bytearray(idx(IMAGES)[: cut % 2500] + tail)
    if content:
        content[place % len(content)] ^= byte
    try:
        array = read_idx(io.BytesIO(bytes(content)), "x")
    except DataError:
        return
    assert array.dtype == np.uint8


def test_an_idx_header_that_claims_terabytes_is_refused_at_once():
    claim = bytes([0, 0, 8, 4]) + b"\xff" * 16
    with pytest.raises(DataError, match="but holds 3"):
        read_idx(io.BytesIO(claim + b"abc"), "x")


def test_a_folder_in_mnist_format_is_a_data_set(tmp_path):
    labels = (np.arange(24) % 3).astype(np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES[:18])))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels[:18]))
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(IMAGES[18:]))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(labels[18:]))
    dataset = load_dataset(tmp_path)
    assert [len(rows) for rows in dataset.splits.values()] == [15, 3, 6]
    np.testing.assert_array_equal(dataset.images[:, 0], IMAGES)
    np.testing.assert_array_equal(dataset.labels, labels)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"rubbish")
    with pytest.raises(DataError, match="unreadable"):
        load_dataset(tmp_path)
