import pytest
import torch

from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators


@pytest.fixture
def model():
    """A small untrained model with every part, always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
        encoder = CoefficientEncoder(4, 3, hidden=(8,), scale_multiplier=0.5)
        classifier = build_classifier("lenet", image_size=16, channels=1, n_classes=3)
        operators = TransportOperators(3, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        network.encoder[-1].weight.mul_(20)  # images far enough apart to be told apart
    return ManifoldAutoencoder(
        network,
        operators,
        latent_scale=2.5,
        coefficient_encoder=encoder,
        classifier=classifier,
        phases=("autoencoder", "operators", "classifier", "coefficient_encoder"),
    )


@pytest.fixture
def images():
    return torch.rand(6, 1, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def seeded():
    return lambda seed=0: torch.Generator().manual_seed(seed)
