"""The number of torch's threads follows the settings, and a busy machine is told."""

import logging

import pytest
import torch

from transop.training import threads


@pytest.fixture
def two_threads(monkeypatch):
    """Torch with two threads, whatever the tests run with."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_settings_decide(two_threads):
    threads.set_threads(1, torch.device("cpu"))
    assert torch.get_num_threads() == 1


def test_timing_leaves_the_number_of_threads_alone(two_threads):
    seconds = threads.time_threads()
    assert set(seconds) == {1, 2}
    assert all(value > 0 for value in seconds.values())
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("slow", "told"), [(2e-3, False), (9e-3, True)])
def test_a_busy_machine_is_told_with_the_remedy(two_threads, monkeypatch, caplog, slow, told):
    monkeypatch.setattr(threads, "time_threads", lambda: {2: slow, 1: 3e-3})
    with caplog.at_level(logging.WARNING):
        threads.set_threads(None, torch.device("cpu"))
    assert ("runtime.threads=1" in caplog.text) == told
    assert torch.get_num_threads() == 2


def test_who_chose_the_threads_is_not_asked_again(two_threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(threads, "time_threads", lambda: pytest.fail("timed"))
    threads.set_threads(None, torch.device("cpu"))
    threads.set_threads(None, torch.device("cuda"))


def test_the_fastest_number_is_chosen(monkeypatch):
    monkeypatch.setattr(threads, "time_threads", lambda: {4: 3.0, 2: 1.0, 1: 2.0})
    assert threads.fastest_threads() == 2
