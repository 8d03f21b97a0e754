import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from transop.augment import TransportAugment
from transop.errors import UserError
from transop.identity import Identity
from transop_paper.scarce.batches import TrainingImages
from transop_paper.scarce.experiment import Experiment, run_row, tasks_in_order
from transop_paper.scarce.few_label_identity import find_identity
from transop_paper.scarce.moved import EqualNoise
from transop_paper.scarce.protocol import (
    Protocol,
    draw_labelled,
    new_network,
    score,
    train_network,
)
from transop_paper.scarce.results import draw_table, summarise, write_table
from transop_paper.scarce.rows import find_rows, known_rows


@pytest.fixture
def experiment(strokes, model, settings, quick, tmp_path):
    return Experiment(strokes, quick, tmp_path, model, settings, "abc")


def row(name):
    return find_rows([name], "mnist")[0]


def test_every_seed_draws_its_own_images_as_many_of_each_class(strokes):
    images, labels, rows = draw_labelled(strokes, 5, seed=0)
    assert images.shape == (15, 1, 16, 16)
    assert np.bincount(labels).tolist() == [5, 5, 5]
    assert set(rows) <= set(strokes.splits["train"])
    assert np.array_equal(draw_labelled(strokes, 5, seed=0)[2], rows)
    assert not np.array_equal(draw_labelled(strokes, 5, seed=1)[2], rows)
    with pytest.raises(UserError, match="class 0 has 40"):
        draw_labelled(strokes, 41, seed=0)


def test_the_network_learns_what_is_easy(strokes):
    images, labels, _ = draw_labelled(strokes, 10, seed=0)
    protocol = Protocol(n_steps=300, batch_size=30)
    training_images = TrainingImages(
        row("none"),
        images,
        labels,
        augment=None,
        real_share=0.25,
        pool_size=100,
        generator=torch.Generator().manual_seed(0),
    )
    network = train_network(training_images, protocol, image_shape=(1, 16, 16), n_classes=3, seed=0)
    classify = lambda rows: network(strokes.batch(rows))  # noqa: E731
    assert score(classify, strokes, "test") > 85
    assert score(classify, strokes, "test", n_images=10) % 10 == pytest.approx(0)


def test_training_takes_the_steps_of_adam_on_consecutive_batches(strokes):
    images = strokes.batch(strokes.splits["train"])
    labels = torch.from_numpy(strokes.labels[strokes.splits["train"]])
    shown = []

    def make_images(n):
        start = sum(shown)
        shown.append(n)
        return images[start : start + n], labels[start : start + n]

    protocol = Protocol(n_steps=12, batch_size=10)
    network = train_network(make_images, protocol, image_shape=(1, 16, 16), n_classes=3, seed=5)
    assert sum(shown) == 120

    expected = new_network((1, 16, 16), 3, seed=5)
    optimiser = torch.optim.Adam(expected.parameters(), weight_decay=1e-4)
    for step in range(12):
        optimiser.param_groups[0]["lr"] = protocol.rate_at(step)
        optimiser.zero_grad()
        batch = slice(10 * step, 10 * step + 10)
        torch.nn.functional.cross_entropy(expected(images[batch]), labels[batch]).backward()
        optimiser.step()
    for found, wanted in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_first_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = new_network((1, 16, 16), 3, seed=0)
    torch.manual_seed(2)
    again, other = new_network((1, 16, 16), 3, seed=0), new_network((1, 16, 16), 3, seed=1)
    assert torch.equal(first.head[0].weight, again.head[0].weight)
    assert not torch.equal(first.head[0].weight, other.head[0].weight)


def test_the_cosine_starts_at_the_rate_and_ends_at_zero():
    protocol = Protocol(n_steps=100)
    assert protocol.rate_at(0) == 1e-3
    assert protocol.rate_at(50) == pytest.approx(5e-4)
    assert protocol.rate_at(99) < 1e-6
    assert Protocol(schedule="constant").rate_at(9_999) == 1e-3


@pytest.mark.parametrize(
    "wrong", [{"n_steps": 0}, {"schedule": "warm"}, {"real_share": 1.5}, {"batch_size": 0}]
)
def test_an_impossible_protocol_is_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Protocol(**wrong)


@pytest.mark.parametrize("pool_size", [0, 40])
def test_a_batch_mixes_real_and_moved_images_with_their_labels(strokes, model, pool_size):
    images, labels, _ = draw_labelled(strokes, 2, seed=0)
    augment = TransportAugment(model, generator=torch.Generator().manual_seed(1))
    training_images = TrainingImages(
        row("transport-encoder"),
        images,
        labels,
        augment=augment,
        real_share=0.25,
        pool_size=pool_size,
        generator=torch.Generator().manual_seed(0),
    )
    batch, truth = training_images(600)
    same = (batch[:, None] == images).flatten(2).all(2)
    real = same.any(1)
    assert float(real.float().mean()) == pytest.approx(0.25, abs=0.06)
    assert torch.equal(labels[same[real].float().argmax(1)], truth[real])
    n_different = len(batch[~real].unique(dim=0))
    assert n_different == 36 if pool_size else n_different > 400


def test_refused_moves_become_the_labelled_image(strokes, model):
    images, labels, _ = draw_labelled(strokes, 2, seed=0)
    augment = TransportAugment(model, guard=1.0)
    training_images = TrainingImages(
        row("transport-guarded"),
        images,
        labels,
        augment=augment,
        real_share=0.0,
        pool_size=12,
        generator=torch.Generator().manual_seed(0),
    )
    assert training_images.kept == 0
    batch, _ = training_images(20)
    assert (batch[:, None] - images).abs().flatten(2).amax(2).amin(1).max() < 1e-3


def test_rows_can_be_changed_by_name():
    changed = row("transport-guarded@multiplier=2,n_steps=1,threshold=none")
    assert (changed.multiplier, changed.n_steps, changed.threshold) == (2.0, 1, None)
    assert changed.paper is None
    assert row("elastic@alpha=20").alpha == 20


@pytest.mark.parametrize(
    ("name", "part"),
    [("nothing", "'nothing' does not exist"), ("none@x=1", "'x=1'"), ("none@m=much", "'much'")],
)
def test_unknown_rows_and_changes_are_named(name, part):
    with pytest.raises(UserError, match=part):
        row(name)


def test_every_row_of_the_paper_is_there_and_says_its_labels():
    rows = known_rows("mnist")
    assert sum(one.paper is not None for one in rows.values()) == 5
    assert rows["none"].labels_used() == "the 100 labels only"
    assert rows["transport-prior"].labels_used() == "the 100 labels only"
    assert "guard" in rows["transport-guarded-elastic"].labels_used()
    assert "guard" not in rows["transport-encoder"].labels_used()
    assert rows["transport-100-guarded"].labels_used() == "the 100 labels only"
    assert rows["transport-100-guarded"].needs_own_identity
    fashion = known_rows("fashion-mnist")
    assert not any(one.paper for one in fashion.values())
    assert fashion["transport-encoder-elastic"].alpha == fashion["elastic"].alpha
    assert rows["elastic"].alpha != fashion["elastic"].alpha != fashion["elastic-paper"].alpha
    assert fashion["transport-guarded-elastic"].n_steps == fashion["transport-guarded"].n_steps
    assert fashion["transport-guarded"].n_steps < rows["transport-guarded"].n_steps


def test_a_result_is_kept_and_not_computed_twice(experiment):
    first = run_row(experiment, row("none"), 0)
    assert 0 <= first["test"] <= 100
    assert first["seconds"]["training"] > 0
    file = experiment.result_file(row("none"), 0)
    kept = file.stat().st_mtime_ns
    assert run_row(experiment, row("none"), 0) == json.loads(file.read_text())
    assert file.stat().st_mtime_ns == kept
    assert run_row(experiment, row("none"), 0, force=True)["test"] == first["test"]
    assert file.stat().st_mtime_ns != kept
    assert run_row(experiment, row("none"), 1)["test"] != first["test"]


def test_a_result_of_other_settings_is_not_taken_for_this_one(experiment):
    run_row(experiment, row("transport-prior"), 0)
    longer = dataclasses.replace(experiment.protocol, n_steps=61)
    for other in (
        dataclasses.replace(experiment, protocol=longer),
        dataclasses.replace(experiment, fingerprint="def"),
    ):
        with pytest.raises(UserError, match="--force"):
            run_row(other, row("transport-prior"), 0)


def test_a_fixed_row_does_not_depend_on_the_run(experiment):
    first = run_row(experiment, row("elastic"), 0)
    without = dataclasses.replace(experiment, model=None, settings=None, fingerprint=None)
    assert run_row(without, row("elastic"), 0) == first
    with pytest.raises(UserError, match="--run"):
        run_row(without, row("transport-prior"), 0)


def test_what_the_hundred_labels_teach_is_learned_once_per_seed(experiment, monkeypatch):
    alone = run_row(experiment, row("transport-100"), 0)
    assert alone["labels_used"] == "the 100 labels only"
    assert len(list(experiment.out.glob("identities/seed-0-*/identity.safetensors"))) == 1
    forbid_training(monkeypatch)
    run_row(experiment, row("transport-100-guarded-elastic"), 0)
    with pytest.raises(AssertionError, match="trained again"):
        run_row(experiment, row("transport-100"), 1)


def test_an_encoder_without_labels_reads_none_and_is_shared_by_all_seeds(experiment, monkeypatch):
    found = find_identity(experiment)
    assert Identity.of(found).source == "graph"
    constant = np.zeros_like(experiment.dataset.labels)
    blind = dataclasses.replace(
        experiment, dataset=dataclasses.replace(experiment.dataset, labels=constant)
    )
    assert_same_weights(found.coefficient_encoder, find_identity(blind).coefficient_encoder)
    monkeypatch.setattr("transop_paper.scarce.few_label_identity.train_classifier", None)
    first = run_row(experiment, row("transport-graph-guarded"), 0)
    assert first["labels_used"] == "the 100 labels only"
    run_row(experiment, row("transport-graph"), 1)


def assert_same_weights(one, other):
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)


def forbid_training(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr("transop_paper.scarce.few_label_identity._train_members", refuse)


@pytest.mark.parametrize("changed", ["protocol", "dataset", "fingerprint", "settings"])
def test_a_classifier_of_other_settings_or_data_is_not_used_again(experiment, changed, monkeypatch):
    run_row(experiment, row("transport-100"), 0)
    noisier = experiment.dataset.images.copy()
    noisier[0] = 0
    other = {
        "protocol": dataclasses.replace(experiment.protocol, n_steps=30),
        "dataset": dataclasses.replace(experiment.dataset, images=noisier),
        "fingerprint": "def",
        "settings": experiment.settings.updated(["coefficient_encoder.kl_weight=0.7"]),
    }
    different = dataclasses.replace(experiment, **{changed: other[changed]})
    forbid_training(monkeypatch)
    run_row(experiment, row("transport-100"), 0, force=True)
    with pytest.raises(AssertionError, match="trained again"):
        run_row(different, row("transport-100"), 0, force=True)


def test_the_runs_own_classifier_and_encoder_do_not_leak_into_the_hundred_label_rows(experiment):
    expected = run_row(experiment, row("transport-100-guarded"), 0)
    other = dataclasses.replace(experiment, out=experiment.out / "other")
    for module in (experiment.model.classifier, experiment.model.coefficient_encoder):
        for parameter in module.parameters():
            parameter.data.fill_(torch.nan)
    assert run_row(other, row("transport-100-guarded"), 0)["test"] == expected["test"]


def test_the_table_averages_over_seeds(tmp_path):
    rows = [row("none"), row("elastic"), row("transport-encoder")]
    seconds = {"training": 30.0, "pool": 30.0, "all": 60.0}
    results = [
        {"row": name, "seed": seed, "test": test, "validation": test - 1, "seconds": seconds}
        | {"kept_by_guard": 1.0}
        for name, seed, test in [
            ("elastic", 1, 94.0),
            ("none", 0, 80.0),
            ("none", 1, 82.0),
            ("elastic", 0, 93.0),
        ]
    ]
    none, elastic = summarise(rows, results)
    assert (none.mean, none.deviation, none.n_seeds) == (81, pytest.approx(2**0.5), 2)
    assert elastic.accuracies == (93, 94)
    assert none.minutes == 2
    numbers, lines = write_table(tmp_path, [none, elastic])
    assert json.loads(numbers.read_text())[0]["paper"] == [81.49, 3.35]
    table = lines.read_text().splitlines()
    assert table[0].startswith("row,title,labels_used,mean")
    assert table[1].startswith("none,No augmentation,the 100 labels only,81")
    figure = draw_table([none, elastic], title="ten labels")
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["No augmentation", "Elastic distortion, strong"]


def test_seeds_go_together_in_as_many_as_there_are_processes():
    none, encoder = row("none"), row("transport-100")
    alone = tasks_in_order([none, encoder], 3, 1)
    assert alone == [(one, seed) for seed in range(3) for one in (none, encoder)]
    shared = tasks_in_order([none, encoder], 3, 2)
    assert shared == [(none, 0), (none, 1), (encoder, 0), (encoder, 1), (none, 2), (encoder, 2)]


def test_noise_goes_as_far_as_the_moves_it_is_the_control_of(strokes, model):
    latents = model.encode(strokes.batch(range(60)))
    shown = []

    def learned():
        return TransportAugment(model, generator=torch.Generator().manual_seed(1))

    noise = EqualNoise(learned(), torch.Generator().manual_seed(2))
    noise.model = SimpleNamespace(decode=lambda points: shown.append(points) or points)
    _, accepted = noise.sample(latents)
    ends, _ = learned().move(latents)
    moves, drawn = ends - latents, shown[0] - latents
    torch.testing.assert_close(drawn.norm(dim=1), moves.norm(dim=1), rtol=1e-3, atol=1e-5)
    assert float(torch.cosine_similarity(drawn, moves).abs().mean()) < 0.6  # 4 dimensions
    assert bool(accepted.all())


def test_the_guard_watches_over_noise_too(strokes, model):
    latents = model.encode(strokes.batch(range(60)))
    generator = torch.Generator().manual_seed(2)

    def sample(threshold):
        augment = TransportAugment(
            model, guard=threshold, multiplier=3, generator=torch.Generator().manual_seed(1)
        )
        return EqualNoise(augment, generator).sample(latents)

    pictures, accepted = sample(1 / 3)
    before = model.classify(model.decode(latents)).argmax(1)
    after = model.classify(pictures).argmax(1)
    assert bool(accepted.any())
    assert torch.equal(before[accepted], after[accepted])
    pictures, accepted = sample(1.0)  # never that sure
    assert not bool(accepted.any())
    torch.testing.assert_close(pictures, model.decode(latents))


def test_controls_differ_from_their_rows_in_direction_alone():
    for learned, control in (
        ("transport-guarded", "noise-guarded"),
        ("transport-100", "noise-100"),
    ):
        ours = dataclasses.asdict(row(learned)) | {"moves": "noise", "paper": None}
        theirs = dataclasses.asdict(row(control))
        assert {k for k in ours if ours[k] != theirs[k]} == {"name", "title"}
    assert row("noise-100-elastic").fixed == "elastic"
    assert row("noise-100").needs_own_identity
