import copy

import numpy as np
import pytest
import torch

from transop.networks import LeNet
from transop_paper.scarce.lenet import LanesTrainer, TorchTrainer, start_training

N_STEPS = 20


def problem(*, batch_size, size=28, channels=1, n_classes=10):
    """Make a network, smooth random images, and labels that can be told from them."""
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = LeNet(image_size=size, channels=channels, n_classes=n_classes)
    n = N_STEPS * batch_size
    coarse = torch.rand(n, channels, 7, 7, generator=generator)
    images = torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear").clamp_min(0.3)
    labels = (coarse[:, 0, 3, 3] * n_classes).long()
    return network, images, labels


def both_ways(network, *, size, batch_size):
    return (
        LanesTrainer(
            copy.deepcopy(network), image_size=size, batch_size=batch_size, weight_decay=1e-4
        ),
        TorchTrainer(copy.deepcopy(network), batch_size=batch_size, weight_decay=1e-4),
    )


SHAPES = [
    {"batch_size": 50},
    {"batch_size": 7, "n_classes": 3},
    {"batch_size": 51, "n_classes": 13},
    {"batch_size": 1},
    {"batch_size": 9, "size": 17},
    {"batch_size": 12, "size": 32, "channels": 3},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_one_step_has_the_gradient_that_torch_finds(shape):
    network, images, labels = problem(**shape)
    b = shape["batch_size"]
    ours, _ = both_ways(network, size=images.shape[-1], batch_size=b)
    [loss] = ours.train(images[:b], labels[:b], [1e-3])
    expected = torch.nn.functional.cross_entropy(network(images[:b]), labels[:b])
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for found, parameter in zip(ours.gradients(), network.parameters(), strict=True):
        error = torch.linalg.vector_norm(torch.from_numpy(found) - parameter.grad)
        assert error <= 1e-5 * torch.linalg.vector_norm(parameter.grad)


@pytest.mark.parametrize("shape", SHAPES)
def test_twenty_steps_end_where_torch_ends(shape):
    network, images, labels = problem(**shape)
    b = shape["batch_size"]
    ours, theirs = both_ways(network, size=images.shape[-1], batch_size=b)
    rates = np.linspace(1e-3, 1e-4, N_STEPS).tolist()
    half = N_STEPS // 2
    losses = ours.train(images[: half * b], labels[: half * b], rates[:half])
    losses += ours.train(images[half * b :], labels[half * b :], rates[half:])
    np.testing.assert_allclose(losses, theirs.train(images, labels, rates), rtol=1e-4, atol=1e-4)
    found, expected = (
        torch.cat([parameter.detach().flatten() for parameter in trainer.finish().parameters()])
        for trainer in (ours, theirs)
    )
    # Adam turns the rounding of a slope near zero into a whole step: compare all as one vector.
    error = torch.linalg.vector_norm(found - expected)
    assert error <= 1e-4 * torch.linalg.vector_norm(expected)


def test_training_is_compiled_for_single_precision_only():
    network, _, _ = problem(batch_size=1)
    options = {"image_size": 28, "batch_size": 1, "weight_decay": 0.0}
    assert isinstance(start_training(network, **options), LanesTrainer)
    assert isinstance(start_training(network.double(), **options), TorchTrainer)


def test_the_same_training_twice_gives_the_same_weights():
    network, images, labels = problem(batch_size=10)
    results = []
    for _ in range(2):
        ours, _ = both_ways(network, size=28, batch_size=10)
        ours.train(images, labels, [1e-3] * N_STEPS)
        results.append(ours.finish().state_dict())
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name])
