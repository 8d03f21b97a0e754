import numpy as np
import pytest
import torch

from transop.errors import DataError, UserError
from transop.pairs.source import GroupPartners, ListedPartners, PairSource


def source_of(table):
    table = torch.tensor(table)
    rows = torch.arange(len(table))
    return PairSource("given", ListedPartners.from_table(table), rows, neighbours=table)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_drawn_partners_are_always_in_the_table():
    source = source_of([[1, 2], [2, 0], [0, 1], [0, 2]])
    starts, ends = source.sample(seeded(), 500)
    assert (source.neighbours[starts] == ends[:, None]).any(1).all()


def test_every_neighbour_is_drawn_equally_often():
    source = source_of([[1, 2, 3, 4]] + [[0, -1, -1, -1]] * 4)
    ends = source.partners.draw(torch.zeros(20_000, dtype=torch.int64), seeded())
    shares = ends.bincount(minlength=5)[1:] / 20_000
    torch.testing.assert_close(shares, torch.full((4,), 0.25), atol=0.02, rtol=0)


def test_an_epoch_visits_every_start_once_and_draws_anew_next_time():
    source = source_of([[(i + 1) % 40, (i + 2) % 40, (i + 3) % 40] for i in range(40)])
    generator = seeded()
    epochs = []
    for _ in range(2):
        batches = list(source.epoch(generator, 16))
        assert [len(start) for start, _ in batches] == [16, 16, 8]
        starts = torch.cat([start for start, _ in batches])
        assert sorted(starts.tolist()) == list(range(40))
        ends = torch.cat([end for _, end in batches])
        epochs.append(dict(zip(starts.tolist(), ends.tolist(), strict=True)))
    assert epochs[0] != epochs[1]


def test_the_same_generator_state_gives_the_same_pairs():
    source = source_of([[1, 2], [2, 0], [0, 1]])
    first, second = source.sample(seeded(5), 64), source.sample(seeded(5), 64)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


def test_images_without_partners_never_start_a_pair():
    source = source_of([[-1, -1], [2, -1], [-1, -1], [1, 2]])
    assert len(source) == 2
    assert set(source.sample(seeded(), 200)[0].tolist()) == {1, 3}
    assert sorted(next(source.epoch(seeded(), 10))[0].tolist()) == [1, 3]


def test_around_an_image_are_itself_its_partners_and_theirs():
    source = source_of([[1, 2], [2, 3], [3, 4], [4, 0], [-1, -1]])
    around = source.around(torch.tensor([0, 4]), seeded())
    assert around.shape == (2, 31)
    assert (around[:, 0] == torch.tensor([0, 4])).all()
    assert set(around[0, 1:6].tolist()) <= {1, 2}
    assert set(around[0].tolist()) == {0, 1, 2, 3, 4}
    assert set(around[1].tolist()) == {4}  # it has no partner: nobody else is around


def test_no_pairs_at_all_is_an_error():
    with pytest.raises(DataError, match="leaves no image with a partner"):
        source_of([[-1], [-1]])


def test_group_partners_share_the_group_and_are_never_the_image_itself():
    groups = np.array([3, 0, 3, 0, 3, 7, 0])
    partners = GroupPartners(groups)
    anchors = torch.tensor([0, 1, 2, 3, 4, 6]).repeat(300)
    ends = partners.draw(anchors, seeded())
    assert (ends != anchors).all()
    assert (groups[ends] == groups[anchors]).all()
    assert set(ends[anchors == 0].tolist()) == {2, 4}
    assert partners.counts().tolist() == [2, 2, 2, 2, 2, 0, 2]


def test_listed_pairs_keep_their_start_and_their_weight():
    pairs = torch.tensor([[2, 0], [0, 1], [2, 1], [2, 1]])
    partners = ListedPartners.from_pairs(pairs, 4)
    assert partners.counts().tolist() == [1, 0, 3, 0]
    ends = partners.draw(torch.full((9000,), 2), seeded())
    assert (ends == 1).double().mean() == pytest.approx(2 / 3, abs=0.02)


def test_label_agreement_counts_every_image_once():
    source = source_of([[1, 2], [0, -1], [0, 1]])
    # image 0: one of two partners agrees; image 1: its only one; image 2: none
    assert source.label_agreement(np.array([5, 5, 6])) == pytest.approx((0.5 + 1 + 0) / 3)


def test_label_agreement_of_groups_equals_the_frequency_of_drawn_pairs():
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 0, 1])
    source = PairSource("random", GroupPartners(np.zeros(8, dtype=np.int64)), torch.arange(8))
    starts, ends = source.sample(seeded(), 40_000)
    drawn = (labels[starts] == labels[ends]).double().mean().item()
    assert source.label_agreement(labels) == pytest.approx(drawn, abs=0.01)


def test_labels_of_the_whole_data_set_are_reduced_to_the_split():
    partners = ListedPartners.from_table(torch.tensor([[1], [0]]))
    source = PairSource("given", partners, rows=torch.tensor([4, 1]))
    assert source.label_agreement(np.array([0, 7, 0, 0, 7])) == 1.0
    with pytest.raises(UserError, match="labels has 3 values"):
        source.label_agreement(np.array([0, 0, 0]))


def test_a_batch_of_no_pairs_is_refused():
    with pytest.raises(UserError, match="batch_size = 0"):
        source_of([[1], [0]]).sample(None, 0)
