import sys

import pytest
import torch

from transop.errors import UserError
from transop.pairs import build_pairs, neighbours, strategies
from transop.pairs.neighbours import approximate_neighbours, nearest_neighbours


def clustered(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = 5 * torch.randn(8, 6, generator=generator)
    return centres[torch.arange(n) % 8] + torch.randn(n, 6, generator=generator)


def test_looking_into_every_cell_finds_every_neighbour():
    features = clustered(400)
    found, recall = approximate_neighbours(features, 3, n_probes=10_000)
    assert recall == 1.0
    assert (found == nearest_neighbours(features, 3)).double().mean() > 0.99


def test_the_reported_recall_is_the_true_one():
    features = clustered(450)  # fewer rows than the sample, so the sample is everything
    found, recall = approximate_neighbours(features, 5, n_probes=1)
    exact = nearest_neighbours(features, 5)
    true = (found[:, :, None] == exact[:, None, :]).any(1).double().mean().item()
    assert 0.2 < recall < 1.0
    assert recall == pytest.approx(true)


def test_no_row_is_its_own_neighbour_among_copies():
    found, _ = approximate_neighbours(torch.ones(100, 4), 3)
    assert not (found == torch.arange(100)[:, None]).any()


def test_beyond_the_limit_the_source_carries_its_recall(make_dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "EXACT_LIMIT", 10)
    dataset = make_dataset()
    first = build_pairs(dataset, "pixel", cache_dir=tmp_path)
    again = build_pairs(dataset, "pixel", cache_dir=tmp_path)
    assert first.recall is not None
    assert again.recall == first.recall


def test_without_faiss_the_error_says_how_to_get_it(make_dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"pip install 'transop\[faiss\]'"):
        build_pairs(make_dataset(), "pixel", search="faiss", cache_dir=tmp_path)


def test_an_index_in_several_parts_finds_what_one_part_finds(tmp_path, monkeypatch):
    features = clustered(400)
    whole, _ = approximate_neighbours(features, 3, n_probes=4)
    monkeypatch.setattr(neighbours, "_BLOCK", 50)
    monkeypatch.setattr(neighbours, "_SHARD_BYTES", 1)
    parts, _ = approximate_neighbours(features, 3, n_probes=4, scratch=tmp_path)
    assert torch.equal(whole, parts)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_printed_while_searching(capfd):
    approximate_neighbours(clustered(400), 3)
    assert capfd.readouterr().out == ""
