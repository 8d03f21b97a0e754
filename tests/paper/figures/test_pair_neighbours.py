import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.pairs import build_pairs
from transop_paper.figures.pair_neighbours import partner_images, partners


@pytest.fixture
def make_dataset():
    def build(n):
        images = np.random.default_rng(0).integers(0, 256, (n, 8, 8), dtype=np.uint8)
        dataset = load_dataset(images, labels=np.arange(n) % 3)
        order = np.random.default_rng(1).permutation(n)
        dataset.splits = {"train": order[: n * 3 // 4], "test": order[n * 3 // 4 :]}
        return dataset

    return build


@pytest.mark.parametrize("strategy", ["pixel", "same-class"])
def test_images_of_partners_are_those_at_their_positions(make_dataset, tmp_path, strategy):
    dataset, anchors = make_dataset(n=60), torch.tensor([4, 7])
    source = build_pairs(dataset, strategy, cache_dir=tmp_path)
    found = partners(source, anchors, 3, torch.Generator().manual_seed(0))
    if source.neighbours is not None:
        assert torch.equal(found, source.neighbours[anchors, :3])
    else:
        labels = dataset.labels[source.rows]
        assert (labels[found] == labels[anchors][:, None]).all()
    shown = partner_images(dataset, source, found)
    assert torch.equal(shown[1], dataset.batch(source.rows[found[1]]))


def test_a_missing_neighbour_is_shown_white(make_dataset):
    dataset = make_dataset(n=40)
    source = build_pairs(dataset, "given", given={"neighbours": [[1], [0]] + [[-1]] * 28})
    found = partners(source, torch.tensor([0]), 2)
    assert found.tolist() == [[1, -1]]
    assert (partner_images(dataset, source, found)[0, 1] == 1).all()
