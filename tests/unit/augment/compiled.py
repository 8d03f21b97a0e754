"""Checks of the compiled augmentation, run as a program by ``test_compiled_augment``.

A process of its own: the shape checks that tests wrap around functions cannot be compiled.
"""

import sys

import torch

from transop.augment import TransportAugment
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators


def make_model():
    torch.manual_seed(3)
    return ManifoldAutoencoder(
        build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4),
        TransportOperators(3, 4, generator=torch.Generator().manual_seed(0)),
        coefficient_encoder=CoefficientEncoder(4, 3, hidden=(8,), scale_multiplier=0.5),
        classifier=build_classifier("lenet", image_size=16, channels=1, n_classes=3),
    )


def check_draws(model, images, **settings):
    """What the compiled module draws is what the plain one replays, and it goes on drawing."""
    torch._dynamo.reset()
    augment = TransportAugment(model, **settings)
    whole = "guard" not in settings  # a guard's work depends on the images
    compiled = torch.compile(augment, backend="eager", fullgraph=whole)
    moved = compiled(images)
    torch.testing.assert_close(augment(images, augment.params), moved)
    assert not torch.equal(compiled(images), moved)


def check_replay(model, images):
    torch._dynamo.reset()
    augment = TransportAugment(model, p=0.5, n_steps=2, residual=0.5)
    expected = augment(images)
    compiled = torch.compile(augment, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images, augment.params), expected)


def check_generator(model, images):
    results = []
    for _ in range(2):
        torch._dynamo.reset()
        augment = TransportAugment(model, generator=torch.Generator().manual_seed(0))
        results.append(torch.compile(augment, backend="eager")(images))
    assert torch.equal(*results)


CHECKS = {
    "draws": lambda model, images: check_draws(model, images, n_steps=2),
    "guard": lambda model, images: check_draws(model, images, guard=0.0),
    "same": lambda model, images: check_draws(model, images, same_on_batch=True),
    "replay": check_replay,
    "generator": check_generator,
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](make_model(), torch.rand(6, 1, 16, 16))
