import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.pairs import build_pairs
from transop_paper.figures.pair_neighbours import nearest_images


@pytest.fixture
def make_dataset():
    def build(n):
        images = np.random.default_rng(0).integers(0, 256, (n, 8, 8), dtype=np.uint8)
        dataset = load_dataset(images, labels=np.arange(n) % 3)
        order = np.random.default_rng(1).permutation(n)
        dataset.splits = {"train": order[: n * 3 // 4], "test": order[n * 3 // 4 :]}
        return dataset

    return build


def test_images_of_neighbours_are_those_at_their_positions(make_dataset, tmp_path):
    dataset, anchors = make_dataset(n=60), torch.tensor([4, 7])
    source = build_pairs(dataset, "pixel", cache_dir=tmp_path)
    shown = nearest_images(dataset, source, anchors)
    for place, anchor in enumerate(anchors):
        expected = dataset.batch(source.rows[source.neighbours[anchor]])
        assert torch.equal(shown[place, : len(expected)], expected[: shown.shape[1]])


def test_a_missing_neighbour_is_shown_white(make_dataset):
    dataset = make_dataset(n=40)
    source = build_pairs(dataset, "given", given={"neighbours": [[1], [0]] + [[-1]] * 28})
    shown = nearest_images(dataset, source, torch.tensor([0, 2]))
    assert torch.equal(shown[0, 0], dataset.batch(source.rows[[1]])[0])
    assert (shown[0, 1:] == 1).all()
    assert (shown[1] == 1).all()
