"""``transop bench augment`` at its smallest."""

import json

from transop_app import cli


def test_all_contenders_are_timed_at_both_sizes(capfd):
    options = ["--batch-size", "2", "--trials", "1", "--json"]
    assert cli.run(["bench", "augment", *options]) == 0
    speeds = json.loads(capfd.readouterr().out)["speeds"]
    assert {(speed["image_size"], speed["channels"]) for speed in speeds} == {(28, 1), (64, 3)}
    names = {speed["name"] for speed in speeds}
    assert {"transport", "RandAugment (kornia)", "elastic (kornia)"} <= names
    assert len(speeds) == 2 * len(names)
    assert all(speed["images_per_second"] > 0 for speed in speeds)


def test_a_table_names_threads_and_batch(capfd):
    assert cli.run(["bench", "augment", "--batch-size", "2", "--trials", "1"]) == 0
    out = capfd.readouterr().out
    assert "batch 2, 1 trials" in out
    assert "28 x 28 x 1" in out


def test_an_impossible_batch_is_one_line(capfd):
    assert cli.run(["bench", "augment", "--batch-size", "0"]) == 2
    assert "batch_size = 0" in capfd.readouterr().err
