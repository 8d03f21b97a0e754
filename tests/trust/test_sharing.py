"""Features and neighbours computed by two processes together: half the work each, one result."""

import multiprocessing
from collections import Counter

import numpy as np
import pytest
import torch

from transop.data import load_dataset
from transop.pairs import BACKBONES, FeatureExtractor, build_pairs, neighbours
from transop.sharing import ALONE, Ranks

N_IMAGES, BATCH = 300, 8
count = Counter()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks so small that there is work for two, and a count of images seen and steps taken."""

    def flatten(images):
        count["images"] += len(images)
        return images.flatten(1)

    def rows(size, weights, cache_dir):
        return FeatureExtractor(flatten, BATCH, key="rows")

    def search(*arguments, exact=neighbours._search):
        for step in exact(*arguments):
            count["steps"] += 1
            yield step

    def without_own(*arguments, approximate=neighbours.without_own):
        count["steps"] += 1
        return approximate(*arguments)

    monkeypatch.setitem(BACKBONES, "rows", rows)
    monkeypatch.setattr(neighbours, "_search", search)
    monkeypatch.setattr(neighbours, "without_own", without_own)
    monkeypatch.setattr(neighbours, "_BLOCK", 32)


@pytest.fixture
def dataset():
    images = np.random.default_rng(0).integers(0, 256, (N_IMAGES, 16, 16), np.uint8)
    return load_dataset(images)


def pair_up(dataset, search, cache, ranks=ALONE):
    torch.set_num_threads(1)  # a forked process has none of its parent's threads
    pairs = build_pairs(dataset, features="rows", search=search, cache_dir=cache, ranks=ranks)
    return pairs.neighbours.tolist(), pairs.recall


def work(rank, n_ranks, meeting, results, dataset, search, cache):
    """Pair as one of several processes, and say what came out and what it took."""
    place = f"file://{meeting}"
    torch.distributed.init_process_group("gloo", place, rank=rank, world_size=n_ranks)
    found = pair_up(dataset, search, cache, Ranks(rank, n_ranks))
    results.put((rank, found, count["images"], count["steps"]))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("search", ["exact", "faiss"])
def test_two_processes_share_features_and_search_and_find_what_one_finds(dataset, search, tmp_path):
    if search == "faiss":
        pytest.importorskip("faiss")
    count.clear()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    given = (tmp_path / "meeting", results, dataset, search, tmp_path / "cache")
    processes = [context.Process(target=work, args=(rank, 2, *given)) for rank in range(2)]
    for process in processes:
        process.start()
    answers = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    alone = pair_up(dataset, search, tmp_path / "other")
    assert [found for _, found, *_ in answers] == [alone, alone]
    (*_, images_0, steps_0), (*_, images_1, steps_1) = answers
    assert (images_0 + images_1, steps_0 + steps_1) == (count["images"], count["steps"])
    assert abs(images_0 - images_1) <= BATCH
    assert abs(steps_0 - steps_1) <= 1
    assert len(list((tmp_path / "cache" / "pairs").glob("features-*"))) == 1
    assert not list((tmp_path / "cache").rglob(".index-*"))
