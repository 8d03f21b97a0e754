import numpy as np
import pytest
import torch

from transop.errors import UserError
from transop.pairs import neighbours
from transop.pairs.neighbours import exact_neighbours_of, nearest_neighbours


def brute_force(features, k):
    distance = torch.cdist(features.double(), features.double())
    distance.fill_diagonal_(torch.inf)
    return distance.topk(k, dim=1, largest=False).indices


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(neighbours, "_BLOCK", 7)


def test_blockwise_search_agrees_with_all_distances_at_once(small_blocks):
    features = torch.randn(53, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(nearest_neighbours(features, 4), brute_force(features, 4))


def test_a_large_common_offset_does_not_blur_the_distances():
    features = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    shifted = nearest_neighbours(features + 300.0, 3)
    assert (shifted == brute_force(features, 3)).double().mean() > 0.99


def test_half_precision_features_are_searched_as_stored(small_blocks):
    features = torch.randn(40, 6, generator=torch.Generator().manual_seed(2)).half()
    assert torch.equal(nearest_neighbours(features, 3), brute_force(features, 3))


def test_no_row_is_its_own_neighbour_even_among_copies(small_blocks):
    features = torch.ones(20, 3)
    found = nearest_neighbours(features, 4)
    assert not (found == torch.arange(20)[:, None]).any()
    assert all(len(set(row)) == 4 for row in found.tolist())


def test_neighbours_within_groups_share_the_group(small_blocks):
    features = torch.randn(50, 5, generator=torch.Generator().manual_seed(3))
    groups = np.arange(50) % 4
    found = nearest_neighbours(features, 3, groups=groups)
    assert (groups[found.numpy()] == groups[:, None]).all()
    members = torch.from_numpy(np.flatnonzero(groups == 1))
    assert torch.equal(found[members], members[brute_force(features[members], 3)])


def test_a_group_too_small_is_filled_with_minus_one():
    groups = np.array([0, 0, 0, 1, 1, 2])
    found = nearest_neighbours(torch.randn(6, 2), 2, groups=groups)
    assert (found[:3] >= 0).all()
    assert found[3].tolist() == [4, -1]
    assert found[5].tolist() == [-1, -1]


def test_neighbours_of_some_rows_equal_those_rows_of_the_table(small_blocks):
    features = torch.randn(31, 4, generator=torch.Generator().manual_seed(4))
    rows = torch.tensor([30, 2, 17])
    expected = nearest_neighbours(features, 5)[rows]
    assert torch.equal(exact_neighbours_of(rows, features, 5), expected)


def test_every_pair_of_blocks_is_announced(small_blocks):
    seen = []

    def progress(items, description, total=None):
        for item in items:
            seen.append((description, total))
            yield item

    nearest_neighbours(torch.randn(20, 2), 2, progress=progress)
    assert seen == [("nearest neighbours", 6)] * 6


@pytest.mark.parametrize(
    ("features", "k", "message"),
    [
        (torch.zeros(5, 2), 5, "n_neighbours=5 needs at least 6 images"),
        (torch.zeros(5, 2), 0, "n_neighbours=0"),
        (torch.zeros(5), 1, "shape"),
        (torch.zeros(5, 2, dtype=torch.int64), 1, "int64"),
        (torch.tensor([[0.0], [1.0], [torch.nan]]), 1, "features of image 2 are not finite"),
    ],
)
def test_impossible_searches_are_refused_by_name(features, k, message):
    with pytest.raises(UserError, match=message):
        nearest_neighbours(features, k)
