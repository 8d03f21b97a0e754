import numpy as np
import pytest
import scipy.sparse as sparse
import torch

from transop.errors import UserError
from transop.semi_supervised import spread_labels, weigh_neighbours


@pytest.fixture
def crescents():
    """Two interleaved arcs, 150 points each, that no straight line separates."""
    generator = np.random.default_rng(0)
    angle = np.concatenate([np.linspace(0, np.pi, 150)] * 2)
    label = np.arange(300) // 150
    x = np.cos(angle) * (1 - 2 * label) + label
    y = np.sin(angle) * (1 - 2 * label) + 0.5 * label
    points = np.stack([x, y], 1) + 0.04 * generator.standard_normal((300, 2))
    return torch.from_numpy(points).float(), label


def test_one_label_per_class_names_two_interleaved_arcs(crescents):
    points, label = crescents
    rows = np.array([10, 200])
    opinion = spread_labels(weigh_neighbours(points), rows, label[rows], 2)
    assert np.mean(opinion.argmax(1) == label) > 0.98
    np.testing.assert_allclose(opinion.sum(1), 1)


def test_classes_are_as_frequent_as_among_the_labels():
    line = torch.linspace(0, 1, 300)[:, None]
    opinion = spread_labels(
        weigh_neighbours(line), np.array([5, 30, 60, 295]), np.array([0, 0, 0, 1]), 2
    )
    np.testing.assert_allclose(opinion.mean(0), [0.75, 0.25], atol=0.01)


def test_scores_solve_the_poisson_equation():
    """On a path of four points with its ends labelled, scores fall linearly along the path."""
    path = sparse.csr_matrix(np.diag([1.0, 1, 1], 1) + np.diag([1.0, 1, 1], -1))
    opinion = spread_labels(path, np.array([0, 3]), np.array([0, 1]), 2)
    slopes = np.diff(np.log(opinion[:, 0] / opinion[:, 1]))
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-3)
    assert slopes[0] < 0


def test_weights_are_symmetric_and_fall_with_distance():
    line = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    graph = weigh_neighbours(line, 2).toarray()
    np.testing.assert_allclose(graph, graph.T)
    assert graph[0, 1] == pytest.approx(np.exp(-4 / 9), rel=1e-5)
    assert graph[0, 1] > graph[0, 2] > 0
    assert graph[0, 3] == 0


def test_a_class_without_label_is_refused(crescents):
    points, _ = crescents
    with pytest.raises(UserError, match="1 of 2 classes"):
        spread_labels(weigh_neighbours(points), np.array([0, 1]), np.array([0, 0]), 2)
    with pytest.raises(UserError, match="at least 2"):
        weigh_neighbours(points[:1])


def test_parts_of_a_graph_that_are_not_connected_keep_to_their_own_labels():
    """Two far blobs of one class each, one blob of two classes, and one without label."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0], [50, 0], [0, 50], [4, 50], [50, 50]])
    points = torch.cat([c + torch.randn(40, 2, generator=generator) for c in centres])
    rows, labels = np.array([0, 41, 81, 121]), np.array([0, 1, 2, 0])
    opinion = spread_labels(weigh_neighbours(points), rows, labels, 3)
    for start, label in ((0, 0), (40, 1), (80, 2), (120, 0)):
        right = opinion[start : start + 40].argmax(1) == label
        assert right.mean() > 0.9
    np.testing.assert_allclose(opinion.sum(1), 1)
    assert opinion[160:].max() < 0.99
