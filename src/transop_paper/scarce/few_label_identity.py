"""Classifier and coefficient encoder from the labelled images of one seed, or from no label.

The run's autoencoder and operators have seen images without labels. Whatever uses labels is
trained here: three small networks on elastically distorted images, whose probabilities are
averaged, and a coefficient encoder that keeps their opinion on unlabelled images.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from filelock import FileLock
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from transop.artifacts import RunFolder, load_state, save_state
from transop.model import ManifoldAutoencoder
from transop.networks import CoefficientEncoder, LatentClassifier, LeNet
from transop.progress import Progress, silent
from transop.training import Session, train_classifier, train_coefficient_encoder
from transop_paper.scarce.batches import TrainingImages
from transop_paper.scarce.protocol import descend, new_network
from transop_paper.scarce.rows import Row, known_rows

if TYPE_CHECKING:
    from transop_paper.scarce.experiment import Experiment

_MEMBERS = 3
_MEMBER_STEPS_SHARE = 0.5  # of the protocol's steps
_OPINION_STEPS = 1_000
# What `transop fit` does with a folder that has no labels.
WITHOUT_LABELS = (
    "identity.source=graph",
    "coefficient_encoder.prior=neighbours",
    "coefficient_encoder.scale_multiplier=neighbours",
    "coefficient_encoder.kl_weight=0.3",
    "runtime.device=cpu",
)


class Committee(nn.Module):
    """Several networks; the logits are the logarithm of their mean probability."""

    def __init__(self, members: list[LeNet]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        """Give the log-probabilities of images."""
        opinions = torch.stack([member(images).log_softmax(1) for member in self.members])
        return opinions.logsumexp(0) - torch.tensor(float(len(self.members))).log()


def learn_identity(
    experiment: Experiment,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    seed: int,
) -> ManifoldAutoencoder:
    """Give a copy of the run's model whose classifier and encoder know these labels only.

    The result is kept in a folder named after everything that decides it; a second call, also
    from another process, reads it there.
    """
    data = experiment.dataset
    distortion = known_rows(data.meta.name)["elastic"]
    untrained = [new_network(data.image_shape, data.n_classes, seed) for _ in range(_MEMBERS)]
    facts = {
        "protocol": dataclasses.asdict(experiment.protocol),
        "distortion": dataclasses.asdict(distortion),
    }

    def train() -> nn.Module:
        return Committee(_train_members(experiment, images, labels, distortion, seed))

    folder = experiment.identity_folder(seed, "labels", **facts)
    return _learn_once(experiment, Committee(untrained), "image", train, seed, folder)


def learn_opinion(
    latents: Float[Tensor, "n d"],
    opinion: Float[Tensor, "n k"],
    seed: int,
    progress: Progress = silent,
) -> LatentClassifier:
    """Train a classifier of latents on an opinion about the training images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = LatentClassifier(latent_dimension=latents.shape[1], n_classes=opinion.shape[1])
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(classifier.parameters(), fused=True)
    for step in progress(range(_OPINION_STEPS), "learning the opinion", _OPINION_STEPS):
        rows = torch.randint(len(latents), (500,), generator=generator)
        loss = cross_entropy(classifier(latents[rows]), opinion[rows])
        descend(optimiser, loss, 2e-3 * (1 - step / _OPINION_STEPS))
    return classifier.eval()


def find_identity(experiment: Experiment) -> ManifoldAutoencoder:
    """Give a copy of the run's model whose identity and encoder come from its neighbour graph.

    No label is read, so all seeds share the result; it is kept in a folder.
    """
    assert experiment.model is not None
    assert experiment.settings is not None
    folder = experiment.identity_folder(experiment.settings.runtime.seed, "communities")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if not (folder / "model.safetensors").exists():
            wanted = experiment.settings.updated(WITHOUT_LABELS)
            session = Session.open(wanted, RunFolder(folder), experiment.progress)
            model = copy.deepcopy(experiment.model)
            model.coefficient_encoder = None
            unlabelled = dataclasses.replace(experiment.dataset, labels=None)
            train_classifier(session, model, unlabelled)
            train_coefficient_encoder(session, model, unlabelled)
            model.save_pretrained(folder)
    return ManifoldAutoencoder.from_pretrained(folder)


def _learn_once(
    experiment: Experiment,
    classifier: nn.Module,
    domain: Literal["image", "latent"],
    train: Callable[[], nn.Module],
    seed: int,
    folder: Path,
) -> ManifoldAutoencoder:
    """Train classifier and encoder of a copy of the run's model, or read them where they are."""
    assert experiment.model is not None
    assert experiment.settings is not None
    model = copy.deepcopy(experiment.model)
    model.classifier_domain, model.classifier_recipe = domain, None
    stored = folder / "identity.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if stored.exists():
            state = load_state(stored, kind="identity")
            classifier.load_state_dict(state["classifier"])
            encoder = CoefficientEncoder(**state["architecture"])
            encoder.load_state_dict(state["encoder"])
            model.classifier, model.coefficient_encoder = classifier.eval(), encoder.eval()
            model.prior_scale = state["prior_scale"]
            return model
        model.classifier = train().eval()
        wanted = experiment.settings.updated([f"runtime.seed={seed}", "runtime.device=cpu"])
        unlabelled = dataclasses.replace(experiment.dataset, labels=None)
        session = Session.open(wanted, RunFolder(folder), experiment.progress)
        train_coefficient_encoder(session, model, unlabelled)
        assert model.coefficient_encoder is not None
        state = {
            "architecture": model.coefficient_encoder.architecture(),
            "encoder": dict(model.coefficient_encoder.state_dict()),
            "classifier": dict(model.classifier.state_dict()),
            "prior_scale": model.prior_scale,
        }
        save_state(stored, state, kind="identity")
    return model


def _train_members(
    experiment: Experiment, images: Tensor, labels: Tensor, distortion: Row, seed: int
) -> list[LeNet]:
    """Train networks on distorted images, each with half the protocol's steps."""
    protocol = experiment.protocol
    n_steps = max(1, int(protocol.n_steps * _MEMBER_STEPS_SHARE))
    shorter = dataclasses.replace(protocol, n_steps=n_steps, schedule="cosine")
    members = []
    for number in range(_MEMBERS):
        own_seed = 10_000 * (number + 1) + seed
        generator = torch.Generator().manual_seed(own_seed)
        distorted = TrainingImages(distortion, images, labels, generator=generator)
        words = f"network {number + 1} of {_MEMBERS} from the labelled images"
        members.append(experiment.train(distorted, own_seed, words, shorter))
    return members
