"""A toy world for the figures: no training, every weight drawn from a seed or set by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from transop.artifacts import RunFolder
from transop.config import load_settings
from transop.data import DatasetMeta, ImageDataset
from transop.model import ManifoldAutoencoder
from transop.networks import Autoencoder, AutoencoderShape, CoefficientEncoder
from transop.operators import TransportOperators
from transop.progress import silent
from transop_paper.baselines import (
    BetaVAE,
    ContractiveAutoencoder,
    DenseAutoencoder,
    LinearAutoencoder,
)
from transop_paper.figures.paper_run import PaperRun

SIZE, DIMENSION = 16, 4
SHAPE = AutoencoderShape("mnist", SIZE, 1, DIMENSION, 4)


def draw(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear_autoencoder(seed=0):
    """A linear encoder and the decoder that belongs to it, with a sigmoid at the end."""
    basis = torch.linalg.qr(draw(SIZE**2, DIMENSION, seed=seed)).Q
    encoder, decoder = nn.Linear(SIZE**2, DIMENSION), nn.Linear(DIMENSION, SIZE**2)
    with torch.no_grad():
        encoder.weight.copy_(basis.mT)
        encoder.bias.copy_(draw(DIMENSION, seed=seed + 1, scale=0.3))
        decoder.weight.copy_(4 * basis)
        decoder.bias.fill_(-1.0)
    return Autoencoder(
        SHAPE,
        nn.Sequential(nn.Flatten(), encoder),
        nn.Sequential(decoder, nn.Sigmoid(), nn.Unflatten(1, (1, SIZE, SIZE))),
    )


def operators(*, growth=0.0):
    """Two rotations (the first with a growth rate), and one operator that has died."""
    module = TransportOperators(3, DIMENSION)
    matrices = torch.zeros(3, DIMENSION, DIMENSION)
    matrices[0, 0, 1], matrices[0, 1, 0] = -1.0, 1.0
    matrices[0] += growth * torch.eye(DIMENSION)
    matrices[1, 2, 3], matrices[1, 3, 2], matrices[1, 0, 0] = -2.0, 2.0, 0.1
    matrices[2, 0, 3] = 0.01
    with torch.no_grad():
        module.weight.copy_(matrices)
    return module


def seeded(module, seed):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + i, scale=0.2))
    return module


def manifold_autoencoder(**options):
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, 3))
    return ManifoldAutoencoder(
        linear_autoencoder(),
        operators(**options),
        latent_scale=2.0,
        coefficient_encoder=seeded(CoefficientEncoder(DIMENSION, 3, hidden=(8,)), 20),
        classifier=seeded(classifier, 30),
        phases=("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder"),
    )


def companions():
    architecture = {"image_size": SIZE, "channels": 1, "latent_dimension": DIMENSION, "width": 4}
    contractive = {"penalty_weight": 1.0, "estimator": "exact"}
    dense = {
        "n_operators": 3,
        "hidden": 8,
        "latent_scale": 2.0,
        "coefficient_penalty": 1e-3,
        "operator_decay": 1e-4,
        "reconstruction_weight": 0.75,
    }
    flow = DenseAutoencoder(linear_autoencoder(), numbers=dense)
    seeded(flow.coefficient_network, 60)
    vae = BetaVAE.build({"beta": 5.0, "warm_up_steps": 0}, name="", **architecture)
    return {
        "ae": LinearAutoencoder(linear_autoencoder()),
        "cae": ContractiveAutoencoder(linear_autoencoder(7), numbers=contractive),
        "beta-vae": seeded(vae, 70),
        "dense": flow,
        "latent-pairs": manifold_autoencoder(growth=0.6),
    }


@pytest.fixture(scope="session")
def toy_images():
    """Soft bars at three angles, one class each."""
    generator = np.random.default_rng(0)
    labels = np.arange(150) % 3
    yy, xx = np.mgrid[:SIZE, :SIZE] - 7.5
    angles = labels * np.pi / 3 + generator.uniform(0, 0.5, len(labels))
    offsets = generator.uniform(-3, 3, len(labels))
    distance = np.sin(angles)[:, None, None] * xx + np.cos(angles)[:, None, None] * yy
    pictures = 255 * np.exp(-((distance - offsets[:, None, None]) ** 2) / 4)
    rows = np.arange(len(labels))
    splits = {"train": rows[:90], "test": rows[90:]}
    meta = DatasetMeta("bars", "drawn")
    return ImageDataset(pictures.astype(np.uint8)[:, None], labels.astype(np.int64), splits, meta)


class ToyAttributes(nn.Module):
    """Tells two attributes by two latents of the image; each operator turns one of them."""

    attribute_names = ("First", "Second")

    def __init__(self):
        super().__init__()
        self.encoder = linear_autoencoder().encoder

    def forward(self, images):
        logit = 10 * (self.encoder(images)[:, [1, 2]] + torch.tensor([0.9, 0.4]))
        return torch.stack([-logit, logit], dim=2)


def toy_run(folder, **parts):
    """A run whose parts are given instead of read from the folder."""
    run = PaperRun(folder, None, None, False, silent)
    vars(run).update(parts)
    return run


def with_attributes(material):
    """The toy world with attributes and factors in place of its classes."""
    images, model = material.dataset, manifold_autoencoder()
    model.classifier = ToyAttributes()
    angle = np.linspace(0, 1, len(images))
    chances = model.attributes_at(model.encode(images.batch(slice(None)))).numpy()
    dataset = replace(
        images,
        labels=None,
        attributes=np.where(chances > 0.5, 1, -1).astype(np.int8),
        factors=np.stack([images.images.mean((1, 2, 3)) / 255, angle], axis=1),
        meta=DatasetMeta(
            "bars", "drawn", attribute_names=("First", "Second"), factor_names=("light", "angle")
        ),
    )
    return toy_run(
        material.folder,
        settings=material.settings,
        model=model,
        dataset=dataset,
        data=None,
        _companions=material._companions,
    )


@pytest.fixture(scope="session")
def material(toy_images, tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("toy"))
    lines = []
    for phase, key in {"autoencoder": "loss", "operators": "objective"}.items():
        lines += [
            {"phase": phase, "step": s, "epoch": s / 2, key: 1 / s, "difference": 0.1 / s}
            for s in range(1, 6)
        ]
    lines.append({"phase": "operators", "step": 5, "negative_differences": 0.2})
    folder.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model, others = manifold_autoencoder(), companions()
    also = {"data": None, "image_classifier": model.classify, "_companions": others}
    return toy_run(folder, settings=load_settings("demo"), model=model, dataset=toy_images, **also)


@pytest.fixture(scope="session")
def attribute_material(material):
    return with_attributes(material)
