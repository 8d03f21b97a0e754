"""Seeded, exact, stratified splits."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transop.data.dataset import random_order, random_splits


@given(st.integers(1, 300), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_splits_cover_every_image_once(n, n_classes, seed):
    labels = np.random.default_rng(seed).integers(0, n_classes, n)
    splits = random_splits(n, labels, seed)
    together = np.concatenate(list(splits.values()))
    np.testing.assert_array_equal(np.sort(together), np.arange(n))
    assert all(len(rows) > 0 for rows in splits.values())


def test_every_class_is_split_in_proportion():
    labels = np.repeat([0, 1, 2], [1000, 500, 100])
    splits = random_splits(1600, labels, seed=3)
    counts = {name: np.bincount(labels[rows]).tolist() for name, rows in splits.items()}
    assert counts == {
        "train": [800, 400, 80],
        "validation": [100, 50, 10],
        "test": [100, 50, 10],
    }


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    labels = np.arange(100) % 5
    np.testing.assert_array_equal(random_order(100, labels, 1), random_order(100, labels, 1))
    assert not np.array_equal(random_order(100, labels, 1), random_order(100, labels, 2))


def test_tiny_sets_are_all_train():
    assert list(random_splits(2, None, seed=0)) == ["train"]


def test_as_many_classes_as_pairs_of_images_take_no_longer_than_a_few():
    labels = np.arange(200_000) // 2
    start = time.process_time()
    random_order(len(labels), labels, 0)
    assert time.process_time() - start < 10
