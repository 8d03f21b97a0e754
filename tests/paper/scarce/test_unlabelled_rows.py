"""Rows that also learn from unlabelled images."""

import dataclasses

import numpy as np
import pytest
import torch

from transop.errors import UserError
from transop_paper.scarce.experiment import Experiment, run_row
from transop_paper.scarce.moved import Mover
from transop_paper.scarce.protocol import draw_labelled
from transop_paper.scarce.results import compare_rows
from transop_paper.scarce.rows import GROUPS, find_rows, known_rows
from transop_paper.scarce.unlabelled import UnlabelledRow


@pytest.fixture
def experiment(strokes, model, settings, quick, tmp_path):
    short = dataclasses.replace(
        quick, n_unlabelled_steps=25, unlabelled_batch_size=20, n_copies=2, n_scored=10
    )
    return Experiment(strokes, short, tmp_path, model, settings, "abc")


def row(name):
    return find_rows([name], "mnist")[0]


UNLABELLED = [name for name, one in known_rows("mnist").items() if one.unlabelled is not None]


@pytest.mark.parametrize("name", UNLABELLED)
def test_every_row_runs_and_says_what_it_saw(experiment, name):
    found = run_row(experiment, row(name), 0)
    assert 0 <= found["test"] <= 100
    assert found["labels_used"] == "the 100 labels, all training images without labels"
    assert ("relative_move" in found) == (row(name).unlabelled.moves is not None)


@pytest.mark.parametrize("name", ["poisson-joint", "self-training", "entry", "entry-lines"])
def test_labels_that_were_not_drawn_change_nothing(experiment, name):
    data = experiment.dataset
    _, labels, rows = draw_labelled(data, 4, seed=0)
    shuffled = np.random.default_rng(0).permutation(data.labels)
    other = dataclasses.replace(
        experiment,
        dataset=dataclasses.replace(data, labels=shuffled),
        out=experiment.out / "other",
    )
    first, second = (
        UnlabelledRow(one, row(name), 0, rows, labels).train()[0](data.splits["test"])
        for one in (experiment, other)
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_the_runs_own_classifier_and_encoder_do_not_leak_in(experiment):
    expected = run_row(experiment, row("entry-transport"), 0)
    other = dataclasses.replace(experiment, out=experiment.out / "other")
    for module in (experiment.model.classifier, experiment.model.coefficient_encoder):
        for parameter in module.parameters():
            parameter.data.fill_(torch.nan)
    assert run_row(other, row("entry-transport"), 0)["test"] == expected["test"]


def test_a_graph_names_most_strokes(experiment):
    data = experiment.dataset
    _, labels, rows = draw_labelled(data, 4, seed=0)
    pixels = UnlabelledRow(experiment, row("poisson-pixels"), 0, rows, labels)
    right = pixels.graph_opinion().argmax(1) == data.labels[data.splits["train"]]
    assert right.mean() > 0.8


class Sure(torch.nn.Module):
    """Says class 0 wherever the first coordinate is below a limit."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, latents):
        below = latents[:, :1] < self.limit
        return torch.where(below, 20.0, -20.0) * torch.tensor([1.0, -1.0])


@pytest.fixture
def latents(model):
    points = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    model.classifier, model.classifier_domain = Sure(0.0), "latent"
    return points


def mover(model, latents, kind="operators", threshold=0.8, multiplier=2.0, residual=0.0):
    nearest = torch.cdist(latents, latents).argsort(1)[:, 1:6]
    return Mover(
        model,
        latents,
        nearest,
        kind=kind,
        multiplier=multiplier,
        n_steps=1,
        threshold=threshold,
        residual=residual,
        generator=torch.Generator().manual_seed(1),
    )


@pytest.mark.parametrize("kind", ["operators", "noise", "lines"])
def test_guarded_moves_stay_on_their_side(model, latents, kind):
    rows = torch.arange(len(latents))
    free = mover(model, latents, kind, threshold=None).move(rows)
    assert ((free[:, 0] < 0) != (latents[:, 0] < 0)).any()
    kept = mover(model, latents, kind).move(rows)
    assert torch.equal(kept[:, 0] < 0, latents[:, 0] < 0)
    assert not torch.equal(kept, latents)


def test_controls_move_as_far_as_operators_do(model, latents):
    rows = torch.arange(len(latents))
    moves = {
        kind: mover(model, latents, kind, threshold=None).move(rows) - latents
        for kind in ("operators", "noise", "lines")
    }
    lengths = {kind: torch.linalg.vector_norm(move, dim=1) for kind, move in moves.items()}
    torch.testing.assert_close(lengths["noise"], lengths["operators"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lengths["lines"], lengths["operators"], rtol=1e-4, atol=1e-5)


class Brightness(torch.nn.Module):
    """Answers by how bright an image is."""

    def forward(self, images):
        mean = images.mean((1, 2, 3))
        return torch.stack([4 * mean, -4 * mean], 1)


def brightness_change(model, before, after):
    network = Brightness()
    answers = [network(model.decode(points)).softmax(1)[:, 0] for points in (before, after)]
    return (answers[0] - answers[1]).abs().mean()


def test_the_worst_moves_are_as_long_as_random_ones_and_change_the_answer_more(model, latents):
    rows, multiplier = torch.arange(len(latents)), 0.1  # short, so that lengths are comparable
    images = model.decode(latents)
    random = mover(model, latents, threshold=None, multiplier=multiplier).move(rows)
    worst = mover(model, latents, "worst", threshold=None, multiplier=multiplier).worst(
        rows, images, Brightness()
    )
    lengths = [torch.linalg.vector_norm(moved - latents, dim=1) for moved in (random, worst)]
    torch.testing.assert_close(lengths[1].mean(), lengths[0].mean(), rtol=0.05, atol=0)
    changes = [brightness_change(model, latents, moved) for moved in (random, worst)]
    assert changes[1] > 1.5 * changes[0]


def test_the_guard_keeps_the_worst_moves_on_their_side(model, latents):
    rows, images = torch.arange(len(latents)), model.decode(latents)
    free = mover(model, latents, "worst", threshold=None).worst(rows, images, Brightness())
    assert ((free[:, 0] < 0) != (latents[:, 0] < 0)).any()
    kept = mover(model, latents, "worst").worst(rows, images, Brightness())
    assert torch.equal(kept[:, 0] < 0, latents[:, 0] < 0)


def test_lines_lead_towards_a_neighbour(model, latents):
    moves = mover(model, latents, "lines", threshold=None).move(torch.arange(120)) - latents
    nearest = torch.cdist(latents, latents).argsort(1)[:, 1:6]
    directions = torch.nn.functional.normalize(latents[nearest] - latents[:, None], dim=2)
    cosine = (directions * torch.nn.functional.normalize(moves, dim=1)[:, None]).sum(2)
    moved = torch.linalg.vector_norm(moves, dim=1) > 1e-4
    assert float(cosine[moved].amax(1).min()) > 0.99


def test_the_pool_holds_decoded_moves_and_their_mean_length(model, latents):
    operators = mover(model, latents, "operators")
    pool, length = operators.fill_pool(lambda rows: None, 2)
    assert pool.shape == (120, 2, 1, 16, 16)
    again = mover(model, latents, "operators").move(torch.arange(120))
    expected = model.decode(again).mul(255).round().to(torch.uint8)
    assert torch.equal(pool[:, 0], expected)
    assert 0 < length < 5


def test_lost_detail_is_added_back_to_moved_copies(model, latents):
    images = torch.rand(120, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    still = mover(model, latents, residual=1.0)
    still.move = lambda rows: latents[rows]
    pool, length = still.fill_pool(lambda rows: images[rows], 1)
    assert length == 0
    assert (pool[:, 0] / 255 - images).abs().max() < 0.01


def test_numbers_of_unlabelled_rows_can_be_changed_by_name():
    changed = row("entry@believe=0.9,balanced=no,multiplier=3")
    assert (changed.unlabelled.believe, changed.unlabelled.balanced) == (0.9, False)
    assert changed.multiplier == 3
    with pytest.raises(UserError, match="'believe=1'"):
        row("none@believe=1")
    with pytest.raises(UserError, match="'maybe'"):
        row("fixmatch@balanced=maybe")


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist"])
def test_ablations_differ_from_the_entry_in_what_they_say_alone(dataset):
    rows = known_rows(dataset)
    entry = rows["entry"]
    changes = {"entry-noise": {"moves": "noise"}, "entry-graph-only": {"teacher": None}}
    for name, change in changes.items():
        expected = dataclasses.replace(entry.unlabelled, **change)
        assert rows[name].unlabelled == expected
        same = dataclasses.replace(
            rows[name], name=entry.name, title=entry.title, unlabelled=entry.unlabelled
        )
        assert same == entry


def test_a_group_stands_for_its_rows():
    assert [one.name for one in find_rows(["rivals"], "mnist")] == list(GROUPS["rivals"])


def test_rows_are_compared_seed_by_seed():
    tests = {"a": [80.0, 90.0, 85.0], "b": [79.0, 88.0, 84.0], "c": [80.0]}
    results = [
        {"row": name, "seed": seed, "test": value}
        for name, values in tests.items()
        for seed, value in enumerate(values)
    ]
    b, c = compare_rows(results, "a")
    assert (b.row, b.n_seeds, b.mean) == ("b", 3, pytest.approx(4 / 3))
    assert b.standard_error == pytest.approx(1 / 3)
    assert (c.mean, c.n_seeds) == (0, 1)
    assert np.isnan(c.standard_error)
    with pytest.raises(UserError, match="'d' has no results"):
        compare_rows(results, "d")
