import pytest
import torch

from transop.operators import TransportOperators
from transop.training.diagnostics import OperatorMonitor


def dictionary(scale=1.0, growth=0.0):
    """Three rotations in four dimensions, with a common rate of growth."""
    operators = TransportOperators(3, 4)
    with torch.no_grad():
        operators.weight.copy_(operators.weight - operators.weight.mT)
        operators.weight.mul_(scale / operators.magnitudes().clamp_min(1e-9)[:, None, None])
        operators.weight.add_(growth * torch.eye(4))
    return operators


def watch(coefficients, *, before=1.0, after=0.5, n_steps=20):
    monitor = OperatorMonitor("objective")
    losses = torch.full((len(coefficients),), before), torch.full((len(coefficients),), after)
    for _ in range(n_steps):
        monitor.observe(coefficients, *losses)
    return monitor


SPARSE = torch.tensor([[0.5, 0.0, 0.0], [0.0, -0.2, 0.0], [0.1, 0.0, 0.3], [0.0, 0.0, 0.0]])
LATENTS = torch.ones(5, 4)


def signs(monitor, operators=None, latents=LATENTS):
    return monitor.review(operators or dictionary(), latents)[1]


def test_a_healthy_step_shows_no_sign_of_failure():
    assert signs(watch(SPARSE)) == {}


def test_numbers_describe_use_size_and_difference():
    numbers, _ = watch(SPARSE, before=2.0, after=0.5).review(dictionary(scale=3.0), LATENTS)
    assert numbers["operator_difference"] == pytest.approx(1.5)
    assert numbers["negative_differences"] == 0
    assert numbers["nonzero_histogram"] == [20, 40, 20, 0]
    assert numbers["nonzeros"] == pytest.approx(1.0)
    assert numbers["uses"] == [0.5, 0.25, 0.25]
    assert numbers["magnitudes"] == pytest.approx([3.0] * 3, rel=1e-4)
    assert numbers["largest_real_part"] == pytest.approx(0.0, abs=1e-4)
    assert numbers["latent_magnitude"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("monitor", "operators", "sign", "advice"),
    [
        (watch(SPARSE), dictionary(0.01), "operators-vanished", "lower objective.operator_decay"),
        (watch(SPARSE), dictionary(50.0), "operators-huge", "raise objective.operator_decay"),
        (
            watch(torch.zeros(8, 3)),
            None,
            "coefficients-vanished",
            "lower objective.sparsity_weight",
        ),
        (watch(torch.ones(8, 3)), None, "everything-used", "raise objective.sparsity_weight"),
        (
            watch(5 * SPARSE),
            dictionary(3.0, growth=4.0),
            "paths-run-away",
            "raise objective.operator_decay",
        ),
        (watch(SPARSE, after=2.0), None, "steps-do-harm", "lower the operators' learning rate"),
    ],
)
def test_every_sign_of_the_appendix_is_named_with_what_to_change(monitor, operators, sign, advice):
    found = signs(monitor, operators)
    assert advice in found[sign]


def test_steps_that_trade_fit_for_a_smaller_decay_do_no_harm():
    monitor = OperatorMonitor("fine_tuning")
    for _ in range(20):
        monitor.observe(SPARSE, torch.ones(4), torch.full((4,), 1.1), eased=0.2)
    numbers, found = monitor.review(dictionary(), LATENTS)
    assert numbers["negative_differences"] == 1
    assert numbers["harmful_steps"] == 0
    assert "steps-do-harm" not in found


def test_steps_that_ease_the_decay_less_than_they_cost_in_fit_do_harm():
    monitor = OperatorMonitor("fine_tuning")
    for _ in range(20):
        monitor.observe(SPARSE, torch.ones(4), torch.full((4,), 1.1), eased=0.05)
    assert "steps-do-harm" in signs(monitor)


def test_shrinking_latents_are_noticed_against_their_first_size():
    monitor = watch(SPARSE)
    assert "latents-shrunk" not in signs(monitor)
    monitor.observe(SPARSE, torch.ones(4), torch.zeros(4))
    assert "latents-shrunk" in signs(monitor, latents=0.4 * LATENTS)


def test_counting_starts_anew_after_a_review():
    monitor = watch(SPARSE)
    monitor.review(dictionary(), LATENTS)
    monitor.observe(torch.zeros(4, 3), torch.ones(4), torch.zeros(4))
    numbers, _ = monitor.review(dictionary(), LATENTS)
    assert numbers["nonzero_histogram"] == [4, 0, 0, 0]
