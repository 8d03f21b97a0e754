import zipfile

import numpy as np
import pytest
import torch

from transop.errors import DataError
from transop.pairs import build_pairs
from transop.pairs.given import nearest_coordinates


def test_a_table_of_the_split_is_taken_as_it_is(make_dataset):
    dataset = make_dataset(n=40)
    table = (np.arange(30)[:, None] + np.array([1, 2, 3])) % 30
    source = build_pairs(dataset, "given", given=table.astype(np.uint16))
    assert np.array_equal(source.neighbours.numpy(), table)


def test_a_table_of_the_data_set_is_reduced_to_neighbours_inside_the_split(make_dataset):
    dataset = make_dataset(n=40)
    table = (np.arange(40)[:, None] + np.array([1, 2, 3])) % 40
    source = build_pairs(dataset, "given", given={"neighbours": table})
    rows = dataset.splits["train"]
    for position, found in enumerate(source.neighbours.tolist()):
        expected = [i for i in table[rows[position]] if i in set(rows)]
        assert [rows[p] for p in found if p >= 0] == expected


def test_a_longer_table_than_the_split_serves_a_leading_split(make_dataset):
    dataset = make_dataset(n=40)
    dataset.splits["train"] = np.arange(20)
    table = (np.arange(30)[:, None] + np.array([1, 2, 3])) % 30  # leaves out the last ten images
    source = build_pairs(dataset, "given", given=table)
    assert source.neighbours[18].tolist() == [19, -1, -1]
    assert 19 not in source.anchors


def test_an_image_listed_as_its_own_neighbour_is_dropped(make_dataset):
    table = np.stack([np.arange(30), (np.arange(30) + 1) % 30, (np.arange(30) + 2) % 30], 1)
    source = build_pairs(make_dataset(n=40), "given", given=table)
    assert source.neighbours[4].tolist() == [5, 6, -1]


def test_pairs_are_data_set_indices(make_dataset, tmp_path):
    dataset = make_dataset(n=40)
    a, b, c = dataset.splits["train"][[3, 9, 20]]
    outside = dataset.splits["test"][0]
    np.savez(tmp_path / "mine.npz", pairs=np.array([[a, b], [b, c], [a, outside], [c, c]]))
    source = build_pairs(dataset, "given", given=tmp_path / "mine.npz")
    starts, ends = source.sample(torch.Generator().manual_seed(0), 50)
    assert set(zip(starts.tolist(), ends.tolist(), strict=True)) == {(3, 9), (9, 20)}
    assert source.neighbours is None


def test_time_pairs_stay_within_n_steps_of_the_same_sequence(make_dataset):
    dataset = make_dataset(n=40)
    time, sequence = np.arange(40) // 2, np.arange(40) % 2
    source = build_pairs(
        dataset, "given", given={"time": time, "sequence": sequence}, n_neighbours=2, split=None
    )
    found = source.neighbours.numpy()
    assert (sequence[found] == sequence[:, None]).all()
    assert sorted(time[found[20]]) == [9, 11]
    assert sorted(time[found[0]]) == [1, 2]


def test_transformation_labels_pair_the_nearest_of_the_same_object(make_dataset, tmp_path):
    dataset = make_dataset(n=40)
    lines = ["transformation_cos,transformation_sin,object"]
    angles = np.deg2rad(np.arange(40) * 9.0)
    lines += [f"{np.cos(a)},{np.sin(a)},mug" for a in angles]
    (tmp_path / "angles.csv").write_text("\n".join(lines))
    source = build_pairs(
        dataset, "given", given=str(tmp_path / "angles.csv"), n_neighbours=2, split=None
    )
    assert sorted(source.neighbours[0].tolist()) == [1, 39]  # around the circle


def test_pairs_read_from_text_equal_pairs_read_from_an_array(make_dataset, tmp_path):
    dataset = make_dataset(n=40)
    (tmp_path / "mine.csv").write_text("start,end\n1,2\n2,3\n3,1\n")
    pairs = np.array([[1, 2], [2, 3], [3, 1]])
    sources = [
        build_pairs(dataset, "given", given=g, split=None) for g in (tmp_path / "mine.csv", pairs)
    ]
    draws = [s.sample(torch.Generator().manual_seed(0), 30) for s in sources]
    assert torch.equal(draws[0][1], draws[1][1])


def test_close_frames_of_a_long_sequence_are_told_apart():
    time = np.arange(100_000, dtype=np.float64)[:, None] + 1.7e9
    found = nearest_coordinates(time, np.zeros(100_000, dtype=np.int64), 2)
    assert (np.sort(found[1:-1], 1) == np.arange(100_000)[1:-1, None] + [-1, 1]).all()


def test_equal_coordinates_never_pair_an_image_with_itself():
    found = nearest_coordinates(np.zeros((9, 1)), np.zeros(9, dtype=np.int64), 3)
    assert not (found == np.arange(9)[:, None]).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "needs given="),
        (np.zeros((30, 2), dtype=np.int64), "name it"),
        (np.full((30, 3), 30), "points to image 30 but there are 30"),
        (np.full((30, 3), -2), "count from 0"),
        (np.zeros((17, 3), dtype=np.int64), "17 rows; pass one for each of the 30"),
        (np.zeros((3, 3, 3)), "shape"),
        ({"neighbours": np.zeros((30, 3))}, "integers"),
        ({"pairs": np.array([[0, 40]])}, "points to image 40"),
        ({"times": np.arange(30)}, "it must hold one of"),
        ({"time": np.full(30, np.nan)}, "not finite"),
        ({"time": np.arange(30), "object": np.arange(30)}, "it must hold one of"),
        ("absent.npz", "does not exist"),
    ],
)
def test_unusable_pairs_are_refused_with_the_reason(make_dataset, given, message):
    with pytest.raises(ValueError, match=message):
        build_pairs(make_dataset(n=40), "given", given=given)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.npz", b"not a zip"),
        ("broken.npy", b"\x93NUMPY"),
        ("broken.csv", b"start,end\n1,two\n"),
        ("ragged.csv", b"start,end\n1\n"),
        ("pairs.txt", b"1 2"),
    ],
)
def test_an_unreadable_file_is_named(make_dataset, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        build_pairs(make_dataset(n=40), "given", given=tmp_path / name)


def test_a_pickled_array_is_never_opened(make_dataset, tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        build_pairs(make_dataset(n=40), "given", given=tmp_path / "evil.npy")


def test_a_repeated_column_of_a_csv_is_refused(make_dataset, tmp_path):
    (tmp_path / "twice.csv").write_text("start,end,end\n0,1,2\n")
    with pytest.raises(DataError, match="the column 'end' occurs twice"):
        build_pairs(make_dataset(n=40), "given", given=tmp_path / "twice.csv")


def test_a_byte_order_mark_is_no_part_of_the_first_name(make_dataset, tmp_path):
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbfstart,end\r\n0,1\r\n1,2\r\n")
    source = build_pairs(make_dataset(n=40), "given", given=tmp_path / "excel.csv")
    assert len(source) == 2


def test_a_repeated_array_of_given_pairs_is_refused(make_dataset, tmp_path):
    path = tmp_path / "twice.npz"
    np.savez(path, pairs=np.array([[0, 1]]))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("pairs.npy", archive.read("pairs.npy"))
    with pytest.raises(DataError, match="holds the array 'pairs' twice"):
        build_pairs(make_dataset(n=40), "given", given=path)


def test_an_empty_csv_is_named(make_dataset, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="it must hold one of"):
        build_pairs(make_dataset(n=40), "given", given=tmp_path / "empty.csv")
