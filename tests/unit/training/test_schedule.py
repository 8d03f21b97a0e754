import pytest
import torch

from transop.training.steps import schedule_rate


def optimiser():
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def test_one_cycle_equals_torchs():
    ours, theirs = optimiser(), optimiser()
    cycle = torch.optim.lr_scheduler.OneCycleLR(theirs, 2e-3, total_steps=60, pct_start=0.1)
    for step in range(60):
        rate = schedule_rate(ours, "one-cycle", 2e-3, step, 60)
        a, b = ours.param_groups[0], theirs.param_groups[0]
        assert rate == pytest.approx(b["lr"], rel=1e-9)
        assert a["betas"][0] == pytest.approx(b["betas"][0], rel=1e-9)
        theirs.step()
        if step < 59:
            cycle.step()


def test_cosine_falls_from_the_peak_towards_zero():
    values = [schedule_rate(optimiser(), "cosine", 1.0, step, 10) for step in range(10)]
    assert values[0] == 1.0
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.05


def test_a_constant_rate_stays():
    assert schedule_rate(optimiser(), "constant", 0.3, 7, 10) == 0.3
