import json

import pytest

from transop.errors import UserError
from transop_app.cli import run
from transop_paper.bench.train import TrainSize, bench_train

TINY = ["--batches", "1", "--batch-size", "8", "--latent", "3", "--operators", "2"]


def test_both_ways_learn_alike_and_ours_is_faster():
    report = bench_train(TrainSize(4, 3, 32, 640), n_batches=2, learning_steps=10)
    assert report.ours.objective == pytest.approx(report.authors.objective, rel=0.02)
    assert report.ours.objective != report.start_objective
    assert report.ratio > 5
    assert report.ours.epoch_seconds == pytest.approx(20 * report.ours.seconds_per_batch)
    assert len(report.ours.seconds) == len(report.authors.seconds) == 2


def test_nothing_to_measure_is_an_error():
    with pytest.raises(UserError, match="n_batches=0"):
        bench_train(n_batches=0)


def test_the_command_prints_json_and_a_table(capsys):
    arguments = ["bench", "train", *TINY, "--learning-steps", "2"]  # theirs takes a second a batch
    assert run([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["size"]["n_pairs"] == 50_000
    assert report["ratio"] > 0
    assert run(arguments) == 0
    assert "authors' algorithm" in capsys.readouterr().out
