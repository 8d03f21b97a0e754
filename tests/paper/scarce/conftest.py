import numpy as np
import pytest
import torch

from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.operators import TransportOperators
from transop_paper.scarce.protocol import Protocol

QUICK = Protocol(n_per_class=4, n_steps=60, batch_size=10, pool_size=60, n_scored=0)


@pytest.fixture(scope="session")
def strokes():
    """Bright bars in three directions at random places: three classes, 16 pixels wide."""
    generator = np.random.default_rng(0)
    labels = np.arange(180) % 3
    yy, xx = np.mgrid[:16, :16] - 7.5
    pictures = []
    for label in labels:
        angle = label * np.pi / 3 + generator.uniform(-0.2, 0.2)
        distance = xx * np.sin(angle) + yy * np.cos(angle) - generator.uniform(-3, 3)
        pictures.append(255 * np.exp(-(distance**2) / 3))
    images = np.stack(pictures).astype(np.uint8)[:, None]
    rows = np.arange(180)
    splits = {"train": rows[:120], "validation": rows[120:150], "test": rows[150:]}
    return ImageDataset(images, labels.astype(np.int64), splits, DatasetMeta("strokes", "drawn"))


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4)
        encoder = CoefficientEncoder(4, 3, hidden=(8,))
        classifier = build_classifier("lenet", image_size=16, channels=1, n_classes=3)
    with torch.no_grad():  # untrained, it would draw everything in the same grey
        network.encoder[-1].weight.mul_(20)
        network.decoder[-2].weight.mul_(30)
    operators = TransportOperators(3, 4, generator=torch.Generator().manual_seed(0))
    return ManifoldAutoencoder(
        network,
        operators,
        coefficient_encoder=encoder,
        classifier=classifier,
        phases=("autoencoder", "operators", "classifier", "coefficient_encoder"),
    )


@pytest.fixture
def settings():
    return load_settings(
        "demo",
        [
            "runtime.device=cpu",
            "coefficient_encoder.epochs=1",
            "coefficient_encoder.batch_size=60",
            "coefficient_encoder.distil=false",
            "coefficient_encoder.hidden=[8]",
        ],
    )


@pytest.fixture
def quick():
    return QUICK


@pytest.fixture(autouse=True)
def short_opinions(monkeypatch):
    """Learn the graph's opinion in few steps."""
    monkeypatch.setattr("transop_paper.scarce.few_label_identity._OPINION_STEPS", 100)
