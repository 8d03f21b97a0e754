import numpy as np
import pytest

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.training import Session

SMALL = [
    "autoencoder.width=4",
    "autoencoder.latent_dimension=4",
    "autoencoder.batch_size=16",
    "autoencoder.epochs=2",
    "runtime.device=cpu",
]


@pytest.fixture(scope="session")
def bars():
    """Bright bars at random places and angles, 16 pixels wide, in two classes."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 160)
    yy, xx = np.mgrid[:16, :16] - 7.5
    pictures = []
    for label in labels:
        angle = generator.uniform(0, 0.6) + label * np.pi / 2
        distance = xx * np.sin(angle) + yy * np.cos(angle) - generator.uniform(-3, 3)
        pictures.append(255 * np.exp(-(distance**2) / 4))
    images = np.stack(pictures).astype(np.uint8)[:, None]
    rows = np.arange(160)
    splits = {"train": rows[:128], "validation": rows[128:144], "test": rows[144:]}
    return ImageDataset(images, labels.astype(np.int64), splits, DatasetMeta("bars", "drawn"))


@pytest.fixture
def make_session(tmp_path):
    """Build a session on a folder of its own; the same name continues the same run."""

    def make(*overrides, name="run"):
        settings = load_settings("demo", [*SMALL, *overrides])
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir(exist_ok=True)
        return Session.open(settings, folder)

    return make
