"""The number of torch's threads follows the settings, or what the machine has free."""

import logging

import pytest
import torch

from transop.training import threads
from transop.training.threads import ThreadWatch

CPU = torch.device("cpu")


@pytest.fixture
def two_threads(monkeypatch):
    """Torch with two threads, whatever the tests run with."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threads.threads_put_back():
        torch.set_num_threads(2)
        yield


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(threads.time, "monotonic", lambda: now[0])
    return now


def test_the_settings_decide(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "time_threads", lambda most: pytest.fail("timed"))
    watch = ThreadWatch(1, CPU)
    watch.check()
    assert torch.get_num_threads() == 1


def test_timing_leaves_the_number_of_threads_alone(two_threads):
    seconds = threads.time_threads(2)
    assert set(seconds) == {1, 2}
    assert all(value > 0 for value in seconds.values())
    assert torch.get_num_threads() == 2


def test_timing_works_where_gradients_are_off(two_threads):
    with torch.no_grad():
        assert set(threads.time_threads(2)) == {1, 2}


@pytest.mark.parametrize(("slow", "used"), [(3.5e-3, 2), (9e-3, 1)])
def test_a_busy_machine_gets_fewer_threads(two_threads, monkeypatch, caplog, slow, used):
    monkeypatch.setattr(threads, "time_threads", lambda most: {2: slow, 1: 3e-3})
    with caplog.at_level(logging.WARNING):
        ThreadWatch(None, CPU).check()
    assert torch.get_num_threads() == used
    assert ("1 instead of 2 threads, 3.0 times as fast" in caplog.text) == (used == 1)
    assert ("runtime.threads" in caplog.text) == (used == 1)


def test_when_cores_are_free_again_they_are_used_again(two_threads, monkeypatch, caplog, clock):
    watch, times = ThreadWatch(None, CPU), {2: 9e-3, 1: 3e-3}
    monkeypatch.setattr(threads, "time_threads", lambda most: {n: times[n] for n in (1, most)})
    watch.check()
    assert torch.get_num_threads() == 1
    times[2] = 1.6e-3
    clock[0] += 10
    watch.check()
    assert torch.get_num_threads() == 1, "tried again too soon"
    clock[0] += 60
    with caplog.at_level(logging.WARNING):
        watch.check()
    assert torch.get_num_threads() == 2
    assert "free again" in caplog.text


@pytest.mark.parametrize(("slow_step", "used"), [(0.15, 2), (2.0, 1)])
def test_steps_that_suddenly_become_slow_are_looked_at_at_once(
    two_threads, monkeypatch, clock, slow_step, used
):
    watch, times = ThreadWatch(None, CPU), {2: 2e-3, 1: 3e-3}
    monkeypatch.setattr(threads, "time_threads", lambda most: dict(times))
    for seconds, n_steps in ((0.1, 60), (slow_step, 10)):
        times[2] = 2e-3 if seconds == 0.1 else 9e-3  # another program has started
        for _ in range(n_steps):
            clock[0] += seconds
            watch.check()
    assert torch.get_num_threads() == used


def test_a_phase_whose_steps_are_longer_is_timed_once_and_not_again(
    two_threads, monkeypatch, clock
):
    trials = []
    monkeypatch.setattr(threads, "time_threads", lambda most: trials.append(1) or {2: 2.0, 1: 3.0})
    watch = ThreadWatch(None, CPU)
    for seconds, n_steps in ((0.1, 100), (1.0, 40)):
        for _ in range(n_steps):
            clock[0] += seconds
            watch.check()
    assert len(trials) == 2, "one at the start, one where steps became slow"


@pytest.mark.parametrize("reason", ["environment", "device", "one"])
def test_where_there_is_no_choice_nothing_is_timed(two_threads, monkeypatch, reason):
    monkeypatch.setattr(threads, "time_threads", lambda most: pytest.fail("timed"))
    if reason == "environment":
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
    if reason == "one":
        torch.set_num_threads(1)
    ThreadWatch(None, torch.device("cuda") if reason == "device" else CPU).check()


def test_training_asks_after_every_step_and_puts_the_threads_back(
    two_threads, monkeypatch, tmp_path
):
    asked = []
    monkeypatch.setattr(ThreadWatch, "check", lambda self: asked.append(torch.set_num_threads(1)))
    import transop

    images = torch.rand(40, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    settings = {
        "autoencoder.epochs": 1,
        "autoencoder.batch_size": 8,
        "pairs.strategy": "latent",
        "operators.epochs": 1,
        "fine_tuning.epochs": 0,
    }
    transop.fit(images.numpy(), recipe="demo", settings=settings, out=tmp_path / "run")
    assert len(asked) > 4
    assert torch.get_num_threads() == 2
