"""The study of kept people: its measure knows people apart, its moves are equally long."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from transop.errors import DataError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "kept_person", raising=False)
    module = importlib.import_module("kept_person")
    yield module
    sys.modules.pop("kept_person", None)


def people(n=40, photographs=4, seed=0):
    """Give features in which people differ along two directions and photographs along another."""
    generator = torch.Generator().manual_seed(seed)
    who = torch.arange(n).repeat_interleave(photographs)
    person = torch.randn(n, 2, generator=generator)[who]
    light = 5 * torch.randn(len(who), 1, generator=generator)
    noise = 0.05 * torch.randn(len(who), 3, generator=generator)
    return torch.cat([person, light], 1) + noise, who


def test_directions_in_which_photographs_of_one_person_differ_count_little(script, monkeypatch):
    monkeypatch.setattr(script, "_KEPT", 3)
    monkeypatch.setattr(script, "_LDA", 2)
    features, who = people()
    verifier = script.Verifier.__new__(script.Verifier)
    verifier.fit(features, who.numpy())
    unseen, others = people(seed=1)
    sex = torch.ones(len(others))
    known, _ = script.Gallery(verifier.embed(unseen), others, sex).score(verifier.embed(unseen))
    plain = unseen / unseen.norm(dim=1, keepdim=True)
    without, _ = script.Gallery(plain, others, sex).score(plain)
    assert known > 0.95
    assert without < 0.9


def test_a_probe_is_not_compared_with_its_own_photograph(script):
    vectors = torch.eye(4)
    gallery = script.Gallery(vectors, torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, -1, -1]))
    share, _ = gallery.score(vectors)
    assert share == 0.0  # everyone else is equally unlike; only the probe itself is alike


def test_all_ways_of_moving_go_equally_far(script):
    generator = torch.Generator().manual_seed(0)
    operators = torch.randn(3, 6, 6, generator=generator)
    scales = torch.rand(50, 3, generator=generator) + 0.5
    model = SimpleNamespace(
        operators=SimpleNamespace(operators=operators), scales_at=lambda points: scales
    )
    points, training = torch.randn(2, 50, 6, generator=generator)
    ends = script.moved_points(SimpleNamespace(model=model), points, training, 0.2)
    lengths = {
        name: float(((end - points).norm(dim=1) / points.norm(dim=1)).mean())
        for name, end in ends.items()
    }
    assert len(lengths) == 5
    assert all(length == pytest.approx(0.2, rel=0.02) for length in lengths.values())


def test_identities_of_another_copy_are_refused(script, tmp_path):
    file = tmp_path / "identity_CelebA.txt"
    file.write_text("000001.jpg 3\n000002.jpg 4\n")
    dataset = SimpleNamespace(images=np.zeros((2, 1)))
    assert script.read_people(file, dataset).tolist() == [3, 4]
    with pytest.raises(DataError, match=r"--identities .* lists 2 images, the run has 5"):
        script.read_people(file, SimpleNamespace(images=np.zeros((5, 1))))
