"""Baselines obey the protocol, and their losses are what their papers say."""

import math

import pytest
import torch
from torch import nn

from transop.errors import ArtifactError, UserError
from transop_paper.baselines import BASELINES, BetaVAE, ContractiveAutoencoder, DenseAutoencoder
from transop_paper.baselines.contractive import encoder_jacobian, squared_jacobian

SHAPE = {"name": "mnist", "image_size": 16, "channels": 1, "latent_dimension": 3, "width": 4}
DENSE = {
    "n_operators": 2,
    "hidden": 8,
    "latent_scale": 4.0,
    "coefficient_penalty": 1e-3,
    "operator_decay": 1e-4,
    "reconstruction_weight": 0.75,
}
STRAIGHT = ["ae", "cae", "beta-vae"]
NUMBERS = {
    "ae": {},
    "cae": {"penalty_weight": 1.0, "estimator": "exact"},
    "beta-vae": {"beta": 5.0, "warm_up_steps": 0},
    "dense": DENSE,
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def build(method):
    torch.manual_seed(0)
    return BASELINES[method].build(NUMBERS[method], **SHAPE)


@pytest.fixture
def images():
    return torch.rand(6, 1, 16, 16, generator=generator())


@pytest.mark.parametrize("method", STRAIGHT)
def test_paths_are_straight_and_pass_through_both_ends(method, images):
    model = build(method)
    z = model.encode(images)
    path = model.latent_path(z[:3], z[3:], torch.tensor([0.0, 1.0, 2.0]))
    torch.testing.assert_close(path[:, 0], z[:3])
    torch.testing.assert_close(path[:, 1], z[3:])
    torch.testing.assert_close(path[:, 2] - path[:, 1], path[:, 1] - path[:, 0])
    frames = model.decode(path[:, 2])
    assert frames.shape == (3, 1, 16, 16)
    assert frames.min() >= 0
    assert frames.max() <= 1


@pytest.mark.parametrize("method", STRAIGHT)
def test_a_traversal_starts_at_the_image_and_moves_along_one_direction(method, images):
    model = build(method)
    model.measure_latents(model.encode(torch.rand(50, 1, 16, 16, generator=generator(1))))
    path = model.traversal(images, 1, torch.tensor([-1.0, 0.0, 2.0]))
    torch.testing.assert_close(path[:, 1], model.encode(images))
    torch.testing.assert_close(path[:, 2] - path[:, 1], 2 * model.directions(images)[:, 1])


@pytest.mark.parametrize("method", BASELINES)
def test_a_saved_baseline_comes_back_the_same(method, images, tmp_path):
    model = build(method)
    model.measure_latents(model.encode(images))
    model.phases, model.class_names = ("autoencoder",), ("a", "b")
    model.save_pretrained(tmp_path)
    again = BASELINES[method].from_pretrained(tmp_path)
    torch.testing.assert_close(again.encode(images), model.encode(images))
    torch.testing.assert_close(again.latent_covariance, model.latent_covariance)
    assert (again.phases, again.class_names) == (model.phases, model.class_names)


def test_loading_another_method_is_refused(tmp_path):
    build("ae").save_pretrained(tmp_path)
    with pytest.raises(ArtifactError, match="holds no cae model"):
        ContractiveAutoencoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("method", BASELINES)
def test_training_lowers_the_loss(method, images):
    model = build(method).train()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        loss = model(images, generator())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_evaluation_leaves_the_training_mode_as_it_was(images):
    model = build("ae").train()
    model.encode(images)
    assert model.training


def test_the_exact_penalty_of_a_linear_encoder_is_its_squared_weights():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    inputs = torch.rand(4, 1, 4, 4, requires_grad=True)
    value = squared_jacobian(encoder(inputs), inputs, "exact", generator())
    expected = encoder[1].weight.square().sum().expand(4)
    torch.testing.assert_close(value, expected)


def test_the_stochastic_penalty_agrees_on_average():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    inputs = torch.rand(4000, 1, 4, 4, requires_grad=True)
    value = squared_jacobian(encoder(inputs), inputs, "stochastic", generator()).mean()
    expected = encoder[1].weight.square().sum()
    assert abs(value.item() / expected.item() - 1) < 0.05


@pytest.mark.parametrize("estimator", ["exact", "stochastic"])
def test_the_penalty_reaches_the_weights(estimator):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    inputs = torch.rand(4, 1, 4, 4, dtype=torch.float64, requires_grad=True)

    def penalty():
        return squared_jacobian(encoder(inputs), inputs, estimator, generator()).mean()

    weight = encoder[1].weight
    (slope,) = torch.autograd.grad(penalty(), weight)
    step = 1e-6
    with torch.no_grad():
        weight[2, 5] += step
    high = penalty().item()
    with torch.no_grad():
        weight[2, 5] -= 2 * step
    low = penalty().item()
    assert slope[2, 5].item() == pytest.approx((high - low) / (2 * step), rel=1e-5)


def test_batch_normalisation_does_not_hide_the_slope():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    encoder.train()
    inputs = torch.rand(64, 1, 4, 4, requires_grad=True)
    training = squared_jacobian(encoder(inputs), inputs, "exact", generator()).mean().item()
    # In evaluation mode with the statistics of this very batch the images do not interact.
    encoder[2].momentum = 1.0
    encoder(inputs)
    encoder.eval()
    alone = encoder_jacobian(encoder, inputs).square().sum((1, 2)).mean().item()
    assert training == pytest.approx(alone, rel=0.2)


def test_tangents_of_a_linear_encoder_are_its_left_singular_vectors(images):
    model = build("cae")
    linear = nn.Linear(256, 3, bias=False)
    model.network.encoder = nn.Sequential(nn.Flatten(), linear)
    expected = torch.linalg.svd(linear.weight.detach(), full_matrices=False).U.mT
    found = model.directions(images[:2])  # the untrained covariance is the identity
    cosines = torch.einsum("bki,ki->bk", found, expected).abs()
    torch.testing.assert_close(cosines, torch.ones(2, 3), rtol=1e-4, atol=1e-4)


def test_the_vae_loss_is_likelihood_plus_beta_divergences(images):
    images = images.double()
    light, heavy = (
        BetaVAE.build({"beta": b, "warm_up_steps": 0}, **SHAPE).double() for b in (0.0, 4.0)
    )
    heavy.load_state_dict(light.state_dict())
    mean, log_variance = light.network.posterior(images)
    divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
    difference = heavy(images, generator()) - light(images, generator())
    torch.testing.assert_close(difference * 256, 4 * divergence)


def test_a_vae_that_says_one_half_everywhere_pays_one_bit_per_pixel(images):
    model = BetaVAE.build({"beta": 0.0, "warm_up_steps": 0}, **SHAPE)
    nn.init.zeros_(model.network.decoder[-1].weight)
    nn.init.zeros_(model.network.decoder[-1].bias)
    assert model(images, generator()).item() == pytest.approx(math.log(2), rel=1e-6)


@pytest.mark.parametrize("size", [16, 28, 33, 64])
def test_the_vae_takes_any_size_from_16_pixels_on(size):
    model = BetaVAE.build(
        {"beta": 1.0, "warm_up_steps": 0}, **{**SHAPE, "image_size": size, "channels": 3}
    )
    images = torch.rand(2, 3, size, size)
    assert model.decode(model.encode(images)).shape == images.shape
    assert model(images, generator()).isfinite()


def test_at_64_pixels_the_vae_is_the_published_network():
    network = BetaVAE.build(
        {"beta": 1.0, "warm_up_steps": 0}, **{**SHAPE, "image_size": 64}
    ).network
    shapes = [tuple(p.shape) for p in network.encoder.parameters() if p.ndim > 1]
    assert [s[0] for s in shapes] == [32, 32, 64, 64, 256, 6]
    assert shapes[4] == (256, 64 * 4 * 4)


def test_beta_grows_while_the_model_warms_up(images):
    model = BetaVAE.build({"beta": 4.0, "warm_up_steps": 4}, **SHAPE).train()
    weights = []
    for _ in range(6):
        weights.append(model.weight())
        model(images, generator())
    assert weights == [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    model.eval()(images, generator())
    assert model.steps.item() == 6


def test_wrong_numbers_are_refused():
    with pytest.raises(UserError, match="beta"):
        BetaVAE.build({}, **SHAPE)
    with pytest.raises(UserError, match="penalty_weight"):
        ContractiveAutoencoder.build({"weight": 1}, **SHAPE)


def test_the_dense_model_learns_a_planted_rotation():
    torch.manual_seed(0)
    numbers = {**DENSE, "n_operators": 1, "hidden": 32, "operator_decay": 0.0}
    model = DenseAutoencoder.build(numbers, **{**SHAPE, "latent_dimension": 2})
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(400):
        start, angle = torch.randn(64, 2), torch.rand(64)
        turned = torch.stack(
            [
                angle.cos() * start[:, 0] - angle.sin() * start[:, 1],
                angle.sin() * start[:, 0] + angle.cos() * start[:, 1],
            ],
            dim=1,
        )
        loss = model.path_loss(start, turned)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    start, end = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.8, 0.6]])
    reached = model.latent_path(start, end, torch.tensor([1.0]))[:, 0]
    assert (reached - end).norm() < 0.15


def test_the_dense_model_works_in_scaled_units(images):
    model = DenseAutoencoder.build(DENSE, **SHAPE)
    torch.testing.assert_close(4 * model.encode(images), model.network.encode(images).detach())
    torch.testing.assert_close(model.decode(model.encode(images)), model.network(images).detach())
    assert model(images, generator()).isfinite()


@pytest.mark.parametrize("method", BASELINES)
def test_a_baseline_trains_in_mixed_precision(method, images):
    model = build(method)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(images, generator())
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
