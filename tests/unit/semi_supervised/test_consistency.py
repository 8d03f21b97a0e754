import numpy as np
import pytest
import torch
from torch import nn

from transop.errors import UserError
from transop.semi_supervised import Consistency, train_consistently

SHARES = torch.tensor([0.5, 0.5])


def problem(seed=0):
    """Points in two blobs, of which two are labelled; draws of both kinds, seeded."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(200) % 2
    points = torch.randn(200, 2, generator=generator) * 0.6 + 2.0 * (2 * truth[:, None] - 1)

    def labelled(n):
        chosen = torch.randint(2, (n,), generator=generator)
        return points[chosen], truth[chosen]

    def unlabelled(n):
        chosen = torch.randint(200, (n,), generator=generator)
        noise = 0.3 * torch.randn(n, 2, generator=generator)
        return chosen, points[chosen], points[chosen] + noise

    return points, truth, labelled, unlabelled


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))


def train(settings, opinion=None):
    points, truth, labelled, unlabelled = problem()
    trained, facts = train_consistently(
        network(), labelled, unlabelled, settings, class_shares=SHARES, opinion=opinion
    )
    right = (trained(points).argmax(1) == truth).float().mean()
    return trained, facts, float(right)


SHORT = {
    "n_steps": 150,
    "n_labelled": 4,
    "n_unlabelled": 40,
    "learning_rate": 1e-2,
    "threshold": 0.8,
    "weight": 1.0,
}


@pytest.mark.parametrize(
    "settings",
    [
        Consistency(teacher="network", balanced=False, **SHORT),
        Consistency(teacher="average", **SHORT),
        Consistency(teacher="average", loss="squared", **SHORT),
    ],
)
def test_every_teacher_learns_two_blobs_from_two_labels(settings):
    trained, facts, right = train(settings)
    assert right > 0.97
    assert 0 < facts["believed"] <= 1
    assert not trained.training
    again = train(settings)[0]
    for first, second in zip(trained.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)


def test_an_opinion_alone_is_learned_even_if_it_contradicts_the_labels():
    _, truth, _, _ = problem()
    wrong = torch.nn.functional.one_hot(1 - truth, 2).float()
    _, facts, right = train(Consistency(teacher=None, **SHORT | {"weight": 20.0}), wrong)
    assert right < 0.1
    assert facts["believed"] == pytest.approx(1)


def test_unlikely_guesses_are_not_believed():
    even = torch.full((200, 2), 0.5)
    _, facts, _ = train(Consistency(teacher=None, **SHORT), even)
    assert facts["believed"] == 0


def test_an_opinion_outweighs_the_teacher_at_first_and_less_later():
    from transop.semi_supervised.consistency import _Guesses

    settings = Consistency(teacher="network", balanced=False, opinion_share=0.25, n_steps=100)
    guesses = _Guesses(settings, SHARES, torch.tensor([[1.0, 0.0]]))

    def against(images):
        return torch.tensor([[-50.0, 50.0]])

    rows, image = torch.tensor([0]), torch.zeros(1, 2)
    shares = [float(guesses.at(rows, against, image, step)[0, 0]) for step in (0, 25, 50, 99)]
    np.testing.assert_allclose(shares, [1, 0.625, 0.25, 0.25], atol=1e-5)


def test_balancing_gives_a_neglected_class_its_share():
    from transop.semi_supervised.consistency import _Guesses

    guesses = _Guesses(Consistency(teacher="network"), SHARES, None)
    logits = torch.stack([torch.linspace(0, 4, 50), torch.zeros(50)], 1)
    for step in range(600):
        found = guesses.at(torch.arange(50), lambda images: logits, torch.zeros(50, 2), step)
    assert (logits.softmax(1)[:, 1]).mean() < 0.25
    assert float(found[:, 1].mean()) == pytest.approx(0.5, abs=0.1)


def test_nobody_to_ask_is_refused():
    with pytest.raises(UserError, match="teacher = None"):
        train(Consistency(teacher=None, **SHORT))
