"""``transop bench augment`` and ``transop bench loop`` at their smallest."""

import json

from transop_app import cli

FIXED = {"RandAugment (kornia)", "elastic (kornia)"}
SHORT_LOOP = ["--batch-size", "8", "--steps", "2", "--rounds", "1"]
LEARNED = {"transport", "transport, encoded once"}
SHORT = {f"{name}, bfloat16" for name in LEARNED}


def test_all_contenders_are_timed_at_both_sizes(capfd):
    options = ["--batch-size", "2", "--trials", "1", "--json"]
    assert cli.run(["bench", "augment", *options]) == 0
    report = json.loads(capfd.readouterr().out)
    speeds = report["speeds"]
    assert {(speed["image_size"], speed["channels"]) for speed in speeds} == {(28, 1), (64, 3)}
    names = {speed["name"] for speed in speeds}
    assert names == {*FIXED, *LEARNED, *SHORT, *(f"{name}, guard" for name in LEARNED)}
    assert len(speeds) == 2 * len(names)
    assert all(speed["images_per_second"] > 0 for speed in speeds)
    assert all(speed["over_elastic"] == 1 for speed in speeds if "elastic" in speed["name"])
    assert {speed["name"] for speed in speeds if speed["peak_share"] is not None} == LEARNED
    assert report["peak_gflops"] > 0


def test_a_table_names_threads_and_batch(capfd):
    assert cli.run(["bench", "augment", "--batch-size", "2", "--trials", "1"]) == 0
    out = capfd.readouterr().out
    assert "batch_size 2, trials 1, threads" in out
    assert "28 x 28" in out


def test_an_impossible_batch_is_one_line(capfd):
    assert cli.run(["bench", "augment", "--batch-size", "0"]) == 2
    assert "batch_size = 0" in capfd.readouterr().err


def test_loops_are_timed_in_the_main_process_and_in_workers(capfd):
    assert cli.run(["bench", "loop", *SHORT_LOOP, "--workers", "1", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    speeds = report["speeds"]
    assert {speed["augmentation"] for speed in speeds} == {"none", *FIXED, *LEARNED, *SHORT}
    assert {speed["workers"] for speed in speeds} == {0, 1}
    assert {(speed["network"], speed["image_size"]) for speed in speeds} == {
        ("LeNet-5", 28),
        ("ResNet-8", 64),
    }
    assert all(0 < speed["waiting"] < 1 for speed in speeds)
    assert report["size"]["batch_size"] == 8


def test_a_table_of_loops_compares_with_elastic(capfd):
    assert cli.run(["bench", "loop", *SHORT_LOOP, "--workers", "0"]) == 0
    out = capfd.readouterr().out
    assert "main:" in out
    assert "workers:" not in out


def test_wrong_loops_are_one_line(capfd):
    assert cli.run(["bench", "loop", "--steps", "0"]) == 2
    assert "n_steps=0" in capfd.readouterr().err
