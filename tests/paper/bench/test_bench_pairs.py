import sys

import pytest
import torch

from transop.errors import UserError
from transop.pairs import BACKBONES, FeatureExtractor
from transop_paper.bench.cost import Cost, cost_of
from transop_paper.bench.pairs import PairCosts, bench_pairs, growth


@pytest.fixture
def quick_backbone(monkeypatch):
    def build(image_size, weights, cache_dir):
        return FeatureExtractor(lambda images: images.flatten(1), 16, key="quick")

    monkeypatch.setitem(BACKBONES, "quick", build)


def test_both_searches_are_measured_and_agree(quick_backbone):
    report = bench_pairs([40, 80], backbone="quick", image_size=8)
    assert [cost.n_images for cost in report.costs] == [40, 80]
    assert report.n_features == 64
    for cost in report.costs:
        assert cost.features.seconds > 0
        assert cost.agreement > 0.99
    assert set(report.growth) == {"features", "search"}


def test_the_table_of_all_distances_is_left_out_where_it_would_not_fit(quick_backbone, monkeypatch):
    monkeypatch.setattr("transop_paper.bench.pairs._LARGEST_TABLE_BYTES", 4 * 50 * 50)
    small, large = bench_pairs([40, 80], backbone="quick", image_size=8).costs
    assert small.all_at_once is not None
    assert large.all_at_once is None


def test_growth_is_the_exponent_of_the_time():
    costs = tuple(
        PairCosts(n, Cost(n / 100, None), Cost(n * n / 1e6, None), None, 0.0, None)
        for n in (1000, 3000, 9000)
    )
    assert growth(costs) == pytest.approx({"features": 1, "search": 2})
    assert growth(costs[:1]) == {}


def test_peak_memory_of_a_large_tensor_is_seen_where_the_system_tells():
    _, cost = cost_of(lambda: torch.ones(64, 2**20).sum())
    assert (cost.megabytes is None) == (sys.platform != "linux")
    assert cost.megabytes is None or 200 < cost.megabytes < 400


@pytest.mark.parametrize("sizes", [[], [5], [80, 40]])
def test_senseless_sizes_are_refused(sizes):
    with pytest.raises(UserError, match="sizes="):
        bench_pairs(sizes)


def test_an_unknown_backbone_is_refused():
    with pytest.raises(UserError, match="backbone='vgg'"):
        bench_pairs([40], backbone="vgg")
