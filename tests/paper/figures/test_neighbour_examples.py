import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.errors import UserError
from transop.pairs import build_pairs
from transop_paper.figures.neighbour_examples import neighbour_examples


@pytest.fixture
def make_dataset():
    def build(n):
        images = np.random.default_rng(0).integers(0, 256, (n, 8, 8), dtype=np.uint8)
        dataset = load_dataset(images, labels=np.arange(n) % 3)
        order = np.random.default_rng(1).permutation(n)
        dataset.splits = {"train": order[: n * 3 // 4], "test": order[n * 3 // 4 :]}
        return dataset

    return build


def test_examples_show_the_anchor_and_its_nearest_images(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    sources = {s: build_pairs(dataset, s, cache_dir=tmp_path) for s in ("pixel", "same-class")}
    shown = neighbour_examples(
        dataset, sources, anchors=[4, 7], generator=torch.Generator().manual_seed(0)
    )
    rows = sources["pixel"].rows
    assert shown.anchor_images.shape == (2, 1, 8, 8)
    assert torch.equal(shown.anchor_images, dataset.batch(rows[[4, 7]]))
    assert torch.equal(shown.neighbours["pixel"], sources["pixel"].neighbours[[4, 7], :3])
    expected = dataset.batch(rows[shown.neighbours["same-class"][1]])
    assert torch.equal(shown.neighbour_images["same-class"][1], expected)


def test_a_missing_neighbour_is_shown_white(make_dataset):
    dataset = make_dataset(n=40)
    source = build_pairs(dataset, "given", given={"neighbours": [[1], [0]] + [[-1]] * 28})
    shown = neighbour_examples(dataset, {"given": source}, anchors=[0], n_neighbours=2)
    assert shown.neighbours["given"].tolist() == [[1, -1]]
    assert (shown.neighbour_images["given"][0, 1] == 1).all()


def test_sources_of_different_splits_are_refused(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    sources = {
        s: build_pairs(dataset, "pixel", split=s, cache_dir=tmp_path) for s in dataset.splits
    }
    with pytest.raises(UserError, match="different splits"):
        neighbour_examples(dataset, sources)


def test_anchors_outside_the_split_are_refused(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    source = build_pairs(dataset, "random", cache_dir=tmp_path)
    with pytest.raises(UserError, match="positions from 0 to 44"):
        neighbour_examples(dataset, {"random": source}, anchors=[45])
