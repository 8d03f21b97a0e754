import pytest
import torch

from transop.learning.step import real_part_gradient
from transop.model import ManifoldAutoencoder
from transop.networks import build_autoencoder
from transop.operators import (
    TransportOperators,
    data_gradient,
    largest_real_part,
    transport,
)
from transop.training.latents import find_latent_scale
from transop.training.operators import train_operators

OPERATORS = [
    "autoencoder.latent_dimension=4",
    "operators.n_operators=3",
    "operators.batch_size=20",
    "objective.sparsity_weight=0.01",
    "objective.operator_decay=1e-5",
    "operators.learning_rate=0.02",
    "operators.latent_scale=1.0",
    "operators.epochs=4",
]


class RotatedPairs:
    """Points and their images under a rotation of the first two coordinates."""

    def __init__(self, n=200):
        generator = torch.Generator().manual_seed(0)
        starts = torch.randn(n, 4, generator=generator) * 0.5
        plane = torch.zeros(1, 4, 4)
        plane[0, 0, 1], plane[0, 1, 0] = -1.0, 1.0
        angles = torch.randn(n, 1, generator=generator) * 0.4
        self.latents = torch.cat([starts, transport(plane, angles, starts)])
        self.n = n

    def __len__(self):
        return self.n

    def epoch(self, generator, batch_size):
        for rows in torch.randperm(self.n, generator=generator).split(batch_size):
            yield rows, rows + self.n


def fresh_model():
    torch.manual_seed(0)
    network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=2)
    return ManifoldAutoencoder(network, TransportOperators(3, 4))


def train(session):
    pairs, model = RotatedPairs(), fresh_model()
    return model, train_operators(session, model, pairs.latents, pairs)


def test_a_planted_rotation_is_learned_back(make_session):
    model, numbers = train(
        make_session(
            *OPERATORS,
            "operators.epochs=10",
            "operators.schedule=cosine",
            "objective.sparsity_weight=0.02",
            "objective.operator_decay=3e-3",
            "operators.learning_rate=0.05",
        )
    )
    pairs = RotatedPairs()
    found = model.infer_latents(pairs.latents[:200], pairs.latents[200:])
    assert found.residual.mean() < 0.1
    strongest = model.operators.operators[model.operators.magnitudes().argmax()].detach()
    plane = strongest[:2, :2]
    assert plane.norm() > 0.9 * strongest.norm()
    assert (plane + plane.T).norm() < 0.2 * plane.norm()
    assert numbers["living"] >= 1


def test_the_operator_phase_continues_to_the_same_bits(make_session):
    whole, _ = train(make_session(*OPERATORS, name="whole"))
    session = make_session(*OPERATORS, name="cut")

    def stop_at_nine(items, description, total=None):
        for item in items:
            session.stop_requested = item == 9
            yield item

    session.progress = stop_at_nine
    with pytest.raises(KeyboardInterrupt):
        train(session)
    resumed, _ = train(make_session(*OPERATORS, name="cut"))
    assert torch.equal(whole.operators.weight, resumed.operators.weight)


def test_each_epoch_reports_the_appendix_diagnostics(make_session):
    session = make_session(*OPERATORS)
    train(session)
    reviews = [r for r in session.folder.read_metrics() if "magnitudes" in r]
    assert [r["step"] for r in reviews] == [10, 20, 30, 40]
    for review in reviews:
        assert len(review["magnitudes"]) == 3
        assert sum(review["nonzero_histogram"]) == 200
        assert 0 <= review["nonzeros"] <= 3
        assert review["operator_difference"] > 0
        assert review["negative_differences"] < 0.5
        assert review["harmful_steps"] < 0.5
        assert review["latent_magnitude"] > 0


def findings(session):
    train(session)
    return " ".join(r["finding"] for r in session.folder.read_metrics() if "finding" in r)


def test_a_sparsity_weight_that_forbids_all_paths_is_recognised(make_session):
    text = findings(make_session(*OPERATORS, "objective.sparsity_weight=50"))
    assert "no path at all" in text
    assert "lower objective.sparsity_weight" in text


def test_a_decay_that_kills_all_operators_is_recognised(make_session):
    session = make_session(
        *OPERATORS,
        "objective.operator_decay=10",
        "operators.learning_rate=0.01",
        "operators.epochs=9",
    )
    assert "lower objective.operator_decay" in findings(session)


def test_steps_that_do_harm_are_recognised(make_session):
    session = make_session(*OPERATORS, "operators.learning_rate=5", "operators.epochs=2")
    assert "lower the operators' learning rate" in findings(session)


def test_the_automatic_scale_brings_latents_to_about_one(make_session):
    latents = torch.randn(5000, 10, generator=torch.Generator().manual_seed(0)) * 17
    scaled = latents / find_latent_scale(latents)
    assert 0.99 < (scaled.abs() <= 1).float().mean() < 1
    assert find_latent_scale(torch.zeros(5, 2)) == 1.0


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (["beyond_paper.origin=mirrored"], -1),
        ([], 1),
    ],
)
def test_a_moved_origin_moves_the_latents_and_not_the_pictures(make_session, settings, place):
    pairs, model = RotatedPairs(), fresh_model()
    images = torch.rand(6, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    model.autoencoder.eval()
    latents, seen = model.autoencoder.encode(images), model.autoencoder(images)
    shifted = pairs.latents + torch.tensor([1.0, 0.0, -2.0, 0.0])
    session = make_session(*OPERATORS, "operators.epochs=0", *settings)
    train_operators(session, model, shifted, pairs)
    moved = model.autoencoder.encode(images) - latents
    torch.testing.assert_close(moved, ((place - 1) * shifted.mean(0)).expand(6, 4))
    torch.testing.assert_close(model.autoencoder(images), seen)


@pytest.mark.parametrize("tolerance", [0.0, 0.5])
def test_the_real_part_gradient_agrees_with_differences(tolerance):
    operators = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(1)).double()

    def penalty(matrices):
        excess = (torch.linalg.eigvals(matrices).real.abs() - tolerance).clamp_min(0)
        return (excess**2).sum() / 2

    analytic = real_part_gradient(operators, tolerance)
    numeric = torch.zeros_like(operators)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in operators.shape)):
        shift = torch.zeros_like(operators)
        shift[tuple(index)] = 1e-6
        rise = penalty(operators + shift) - penalty(operators - shift)
        numeric[tuple(index)] = rise / 2e-6
    torch.testing.assert_close(analytic, numeric, atol=1e-6, rtol=1e-5)


def test_the_real_part_gradient_is_bounded_next_to_a_defective_operator():
    nearly = torch.tensor([[[1.0, 1.0], [1e-12, 1.0]]], dtype=torch.float64)
    gradient = real_part_gradient(nearly)
    assert 0 < gradient.norm() <= 3 * 2**0.5 + 1e-9


def test_the_real_part_penalty_lowers_real_parts(make_session):
    plain, _ = train(make_session(*OPERATORS, name="plain"))
    held, _ = train(make_session(*OPERATORS, "objective.real_part_penalty=1", name="held"))
    with torch.no_grad():
        rates = [largest_real_part(m.operators.operators).mean() for m in (plain, held)]
    assert rates[1] < rates[0]


def test_a_gradient_that_is_not_finite_never_reaches_the_operators(make_session, monkeypatch):
    calls = []

    def spoil_the_seventh(*arguments, **options):
        losses, gradient = data_gradient(*arguments, **options)
        calls.append(1)
        return losses, gradient * (float("nan") if len(calls) == 7 else 1)

    monkeypatch.setattr("transop.learning.step.data_gradient", spoil_the_seventh)
    session = make_session(*OPERATORS, "operators.epochs=1")
    model, _ = train(session)
    assert torch.isfinite(model.operators.weight).all()
    assert "raise objective.operator_decay" in session.findings["operators", "not-finite-1"]
