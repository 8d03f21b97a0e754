import threading

import numpy as np
import pytest
import torch

from transop.errors import UserError
from transop.pairs import build_pairs
from transop.pairs.features import (
    FeatureExtractor,
    batch_size_for,
    extract_features,
    input_size_for,
    prepare_images,
)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def describe(images):
    return images.flatten(1)[:, :5]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_features_keep_the_order_of_the_rows(make_dataset, n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    dataset = make_dataset(n=60)
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    try:
        found = extract_features(dataset, rows, FeatureExtractor(describe, 7, key=None))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found, describe(dataset.batch(rows)).half())


def test_working_threads_leave_the_callers_number_of_threads_alone(make_dataset, two_threads):
    seen = []

    def watch(images):
        seen.append(torch.get_num_threads())
        return describe(images)

    extract_features(make_dataset(n=60), torch.arange(60), FeatureExtractor(watch, 7, key=None))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


def test_an_error_inside_a_thread_reaches_the_caller(make_dataset, two_threads):
    with pytest.raises(UserError, match="one row per image"):
        extract_features(
            make_dataset(), torch.arange(60), FeatureExtractor(lambda x: x[:1], 7, key=None)
        )


def test_features_can_be_used_with_autograd_afterwards(make_dataset, two_threads):
    found = extract_features(make_dataset(), torch.arange(9), FeatureExtractor(describe, 4, None))
    weight = torch.ones(5, requires_grad=True)
    (found.float() @ weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize(
    ("image_size", "expected"), [(8, 40), (28, 40), (32, 48), (64, 96), (128, 192), (512, 224)]
)
def test_input_size_grows_with_the_images_within_limits(image_size, expected):
    assert input_size_for(image_size) == expected


def test_larger_inputs_go_in_smaller_batches():
    sizes = [batch_size_for(s) for s in (8, 32, 96, 224, 2000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_grey_images_become_three_equal_channels_of_the_input_size():
    prepared = prepare_images(torch.rand(2, 1, 28, 28), 96)
    assert prepared.shape == (2, 3, 96, 96)
    assert torch.equal(prepared[:, 0], prepared[:, 2])


def test_shrinking_averages_instead_of_skipping_pixels():
    stripes = torch.tensor([0.0, 1.0, 1.0, 0.0]).repeat(16).expand(1, 1, 64, 64)
    prepared = prepare_images(stripes, 16)
    middle = prepared[..., 2:-2]
    torch.testing.assert_close(middle, torch.full_like(middle, 0.5), atol=0.2, rtol=0)


def test_perceptual_pairs_of_photographic_noise_follow_the_classes(make_dataset, tmp_path):
    dataset = make_dataset(n=24, size=16, channels=3)
    source = build_pairs(dataset, "perceptual", n_neighbours=2, cache_dir=tmp_path)
    assert source.label_agreement(dataset.labels) > 0.9


def test_a_missing_weights_file_is_named(make_dataset, tmp_path):
    with pytest.raises(UserError, match=r"absent\.pth"):
        build_pairs(make_dataset(), features="resnet18", weights="absent.pth", cache_dir=tmp_path)


def test_features_of_memory_mapped_images_equal_those_in_memory(make_dataset, tmp_path):
    dataset = make_dataset(n=30)
    np.save(tmp_path / "images.npy", dataset.images)
    mapped = make_dataset(n=30)
    mapped.images = np.load(tmp_path / "images.npy", mmap_mode="r")
    extractor = FeatureExtractor(describe, 8, key=None)
    rows = torch.arange(30)
    assert torch.equal(
        extract_features(dataset, rows, extractor), extract_features(mapped, rows, extractor)
    )


def extract_within_seconds(dataset, seconds=20):
    """Extract features in a thread of its own; give the error, or fail if there is no end."""
    caught = []

    def work():
        try:
            extract_features(dataset, torch.arange(40), FeatureExtractor(describe, 7, key=None))
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "extraction hangs"
    return caught[0]


def test_a_thread_that_cannot_start_is_an_error_and_no_endless_wait(
    make_dataset, two_threads, monkeypatch
):
    dataset, start, started = make_dataset(n=60), threading.Thread.start, []

    def start_one_only(thread):
        if thread.name.startswith("ThreadPoolExecutor"):
            started.append(thread)
            if len(started) > 1:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one_only)
    assert "OMP_NUM_THREADS=1" in str(extract_within_seconds(dataset))


def test_a_worker_that_fails_at_its_start_is_an_error_and_no_endless_wait(
    make_dataset, two_threads, monkeypatch
):
    dataset, set_threads = make_dataset(n=60), torch.set_num_threads

    def fail_in_workers(number):
        if threading.current_thread().name.startswith("ThreadPoolExecutor"):
            raise OSError("no more")
        set_threads(number)

    monkeypatch.setattr(torch, "set_num_threads", fail_in_workers)
    assert isinstance(extract_within_seconds(dataset), UserError)
