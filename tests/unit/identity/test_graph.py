import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from transop.errors import UserError
from transop.identity import agreement, find_communities, neighbour_graph
from transop.pairs import nearest_neighbours


def clouds(n_clouds, n_each=60, apart=6.0, seed=0):
    """Round clouds of points, in a row."""
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((n_clouds * n_each, 3))
    labels = np.repeat(np.arange(n_clouds), n_each)
    points[:, 0] += apart * labels
    return torch.from_numpy(points).float(), labels


@pytest.mark.parametrize("n_clouds", [8, 10])
def test_separate_clouds_are_found_and_counted(n_clouds):
    points, labels = clouds(n_clouds)
    found = find_communities(neighbour_graph(nearest_neighbours(points, 8)))
    assert found.n_communities == n_clouds
    assert agreement(found.members, labels)["adjusted_rand"] > 0.95


def test_no_community_spans_two_separate_clouds():
    points, labels = clouds(2, n_each=200)
    found = find_communities(neighbour_graph(nearest_neighbours(points, 8)))
    assert found.n_communities >= 8
    assert agreement(found.members, labels)["purity"] > 0.99


def test_few_images_are_divided_into_few_communities():
    points, _ = clouds(2, n_each=30)
    found = find_communities(neighbour_graph(nearest_neighbours(points, 5)))
    assert found.n_communities <= 3


def test_touching_clouds_are_divided_and_their_border_is_unsure():
    points, labels = clouds(2, n_each=150, apart=3.0)
    found = find_communities(neighbour_graph(nearest_neighbours(points, 8)), 2)
    assert agreement(found.members, labels)["purity"] > 0.85
    sure = found.shares.max(1)
    border = (points[:, 0] - 1.5).abs().numpy() < 0.4
    assert sure[border].mean() < sure[~border].mean()
    np.testing.assert_allclose(found.shares.sum(1), 1, rtol=1e-6)


def test_a_few_stray_points_are_no_community():
    points, _ = clouds(2, n_each=300)
    stray = torch.full((2, 3), 500.0) + torch.rand(2, 3)
    table = nearest_neighbours(torch.cat([points, stray]), 1)
    table = torch.cat(
        [nearest_neighbours(torch.cat([points, stray]), 8)[:600], table[600:].expand(2, 8)]
    )
    found = find_communities(neighbour_graph(table), 2)
    assert np.bincount(found.members[:600]).min() > 250  # not the stray points against the rest
    assert len(found.members) == 602


def test_the_graph_is_symmetric_and_ignores_missing_neighbours():
    graph = neighbour_graph(torch.tensor([[1, -1], [2, -1], [1, 0]])).toarray()
    np.testing.assert_array_equal(graph, graph.T)
    np.testing.assert_array_equal(graph, [[0, 1, 1], [1, 0, 1], [1, 1, 0]])


def test_edges_of_several_tables_add_up():
    first, second = torch.tensor([[1], [0], [0]]), torch.tensor([[1], [0], [1]])
    graph = neighbour_graph(first, second).toarray()
    assert graph[0, 1] == 2
    assert graph[0, 2] == graph[1, 2] == 1


def test_communities_are_the_same_each_time():
    points, _ = clouds(3, apart=2.5)
    graph = neighbour_graph(nearest_neighbours(points, 6))
    first, second = find_communities(graph, 4, seed=1), find_communities(graph, 4, seed=1)
    np.testing.assert_array_equal(first.members, second.members)


@pytest.mark.parametrize("wanted", [1, 180])
def test_impossible_numbers_of_communities_are_refused(wanted):
    points, _ = clouds(3)
    with pytest.raises(UserError, match=f"n_communities = {wanted} .* use 2 to 179"):
        find_communities(neighbour_graph(nearest_neighbours(points, 6)), wanted)


def test_agreement_is_that_of_scikit_learn():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 4, 200), generator.integers(0, 3, 200)
    second[:120] = first[:120] % 3
    found = agreement(first, second)
    assert found["adjusted_rand"] == pytest.approx(adjusted_rand_score(first, second))
    counts = [np.bincount(second[first == k]).max() for k in range(4)]
    assert found["purity"] == pytest.approx(sum(counts) / 200)


def test_equal_groupings_agree_wholly():
    labels = np.array([0, 0, 1, 1, 2])
    assert agreement(labels, labels) == {"purity": 1.0, "adjusted_rand": 1.0}
    assert agreement(np.zeros(5, int), np.zeros(5, int))["adjusted_rand"] == 1.0
