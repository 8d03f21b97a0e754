import logging

import numpy as np
import pytest
import torch

from transop.errors import DataError, UserError
from transop.pairs import BACKBONES, STRATEGIES, build_pairs, strategies
from transop.pairs.features import FeatureExtractor


def describe(images):
    return images.flatten(1)


def ingredients(dataset):
    return {"features": describe, "latents": torch.randn(45, 3), "given": np.arange(60)}


@pytest.fixture
def fake_backbone(monkeypatch):
    """Count how often images are described, as a backbone whose features may be cached."""
    calls = []

    def counted(images):
        calls.append(len(images))
        return describe(images)

    def build(input_size, weights, cache_dir):
        return FeatureExtractor(counted, 16, key=f"fake/{input_size}/{weights}")

    monkeypatch.setitem(BACKBONES, "fake", build)
    return calls


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_pairs_positions_of_the_split_and_never_an_image_with_itself(
    make_dataset, tmp_path, strategy
):
    dataset = make_dataset(n=60)
    source = build_pairs(dataset, strategy, cache_dir=tmp_path, **ingredients(dataset))
    starts, ends = source.sample(torch.Generator().manual_seed(0), 400)
    assert source.strategy == strategy
    assert (starts != ends).all()
    assert int(torch.cat([starts, ends]).max()) < 45
    assert torch.equal(source.rows, torch.from_numpy(dataset.splits["train"]))


@pytest.mark.parametrize("strategy", ["perceptual", "pixel", "same-class", "perceptual-in-class"])
def test_strategies_that_see_likeness_or_labels_join_equal_labels(make_dataset, tmp_path, strategy):
    dataset = make_dataset(n=60)
    source = build_pairs(dataset, strategy, features=describe, cache_dir=tmp_path)
    assert source.label_agreement(dataset.labels) == 1.0


def test_random_pairs_join_equal_labels_by_chance_only(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    source = build_pairs(dataset, "random", cache_dir=tmp_path)
    assert source.label_agreement(dataset.labels) == pytest.approx(1 / 3, abs=0.05)


def test_positions_and_rows_speak_of_the_same_images(make_dataset, tmp_path):
    dataset = make_dataset(n=60, n_classes=1)
    dataset.images[:, 0, 0, 0] = np.arange(60)
    dataset.images[:, 0, 1:] = 0
    dataset.images[:, 0, 0, 1:] = 0
    source = build_pairs(dataset, "pixel", n_neighbours=1, cache_dir=tmp_path)
    rows = dataset.splits["train"]
    for position, (found,) in enumerate(source.neighbours.tolist()):
        gaps = np.abs(rows - rows[position])
        gaps[position] = 99
        assert gaps[found] == gaps.min()


def test_an_unknown_strategy_lists_the_choices_and_the_nearest(make_dataset):
    with pytest.raises(UserError, match=r"'perceptual', 'pixel'.*did you mean 'perceptual'"):
        build_pairs(make_dataset(), "perceptive")


def test_an_unknown_backbone_lists_the_choices(make_dataset, tmp_path):
    with pytest.raises(UserError, match="efficientnet-lite0, resnet18"):
        build_pairs(make_dataset(), features="vgg", cache_dir=tmp_path)


def test_an_input_too_small_for_five_halvings_is_refused(make_dataset):
    with pytest.raises(UserError, match="input_size = 28 must be a whole number from 32"):
        build_pairs(make_dataset(), input_size=28)


@pytest.mark.parametrize("strategy", ["same-class", "perceptual-in-class"])
def test_strategies_by_class_need_labels(make_dataset, tmp_path, strategy):
    with pytest.raises(DataError, match="has none"):
        build_pairs(make_dataset(labelled=False), strategy, cache_dir=tmp_path)


def test_latent_pairs_need_latents_of_the_right_number(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    with pytest.raises(UserError, match="needs latents="):
        build_pairs(dataset, "latent", cache_dir=tmp_path)
    with pytest.raises(DataError, match="the 45 images of the split or the 60"):
        build_pairs(dataset, "latent", latents=torch.randn(46, 3), cache_dir=tmp_path)


def test_latents_of_the_data_set_and_of_the_split_give_the_same_pairs(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    latents = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    whole = build_pairs(dataset, "latent", latents=latents, cache_dir=tmp_path)
    part = build_pairs(dataset, "latent", latents=latents[whole.rows], cache_dir=tmp_path)
    assert torch.equal(whole.neighbours, part.neighbours)


def test_an_array_of_features_equals_the_function_that_made_it(make_dataset, tmp_path):
    dataset = make_dataset(n=60)
    array = describe(dataset.batch(slice(None))).half().numpy()
    by_array = build_pairs(dataset, features=array, cache_dir=tmp_path)
    by_function = build_pairs(dataset, features=describe, cache_dir=tmp_path)
    assert torch.equal(by_array.neighbours, by_function.neighbours)


def test_a_function_that_loses_images_is_refused(make_dataset, tmp_path):
    with pytest.raises(UserError, match="one row per image"):
        build_pairs(make_dataset(), features=lambda x: x.mean(), cache_dir=tmp_path)


def test_features_are_computed_once_and_shared_by_settings(make_dataset, tmp_path, fake_backbone):
    dataset = make_dataset(n=60)
    first = build_pairs(dataset, features="fake", cache_dir=tmp_path)
    assert sum(fake_backbone) == 45
    again = build_pairs(make_dataset(n=60), features="fake", cache_dir=tmp_path)
    build_pairs(dataset, features="fake", n_neighbours=2, cache_dir=tmp_path)
    build_pairs(dataset, "perceptual-in-class", features="fake", cache_dir=tmp_path)
    assert sum(fake_backbone) == 45
    assert torch.equal(first.neighbours, again.neighbours)


@pytest.mark.parametrize("change", ["pixels", "split", "weights", "input_size"])
def test_other_images_or_settings_are_computed_anew(make_dataset, tmp_path, fake_backbone, change):
    build_pairs(make_dataset(n=60), features="fake", cache_dir=tmp_path)
    other = make_dataset(n=60)
    options = {"weights": {"weights": "other.pth"}, "input_size": {"input_size": 64}}
    options = options.get(change, {})
    if change == "pixels":
        other.images[other.splits["train"][0], 0, 0, 0] ^= 1
    if change == "split":
        options["split"] = "test"
    build_pairs(other, features="fake", cache_dir=tmp_path, **options)
    assert sum(fake_backbone) > 45


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign"])
def test_a_damaged_cache_is_noticed_and_rebuilt(
    make_dataset, tmp_path, fake_backbone, caplog, damage
):
    dataset = make_dataset(n=60)
    good = build_pairs(dataset, features="fake", cache_dir=tmp_path).neighbours.clone()
    files = sorted((tmp_path / "pairs").glob("*/rows.npy"))
    assert len(files) == 2
    for file in files:
        content = bytearray(file.read_bytes())
        if damage == "flipped":
            content[-1] ^= 0xFF
        file.write_bytes({"truncated": content[:-9], "foreign": b"x"}.get(damage, content))
    with caplog.at_level(logging.WARNING):
        rebuilt = build_pairs(dataset, features="fake", cache_dir=tmp_path)
    assert torch.equal(rebuilt.neighbours, good)
    assert caplog.text.count("will be made again") == 2
    caplog.clear()
    build_pairs(dataset, features="fake", cache_dir=tmp_path)
    assert "made again" not in caplog.text


def test_a_cache_that_cannot_be_written_costs_a_warning_only(make_dataset, tmp_path, caplog):
    (tmp_path / "pairs").write_text("a file where the folder should be")
    source = build_pairs(make_dataset(), "pixel", cache_dir=tmp_path)
    assert source.neighbours is not None
    assert "going on without" in caplog.text


def test_beyond_the_limit_without_faiss_the_user_is_told(
    make_dataset, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(strategies, "EXACT_LIMIT", 10)
    monkeypatch.setattr(strategies, "missing_modules", lambda *_: ["faiss"])
    source = build_pairs(make_dataset(), "pixel", cache_dir=tmp_path)
    assert source.recall is None
    assert "transop[faiss]" in caplog.text
