"""Fourth phase: obtain the identity that moves must keep, from one of three sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from transop.data import ImageDataset
from transop.errors import SettingsError
from transop.evaluation import classifier_accuracy, held_out_rows
from transop.identity import (
    Communities,
    Identity,
    agreement,
    choose_source,
    find_communities,
    neighbour_graph,
)
from transop.model import ManifoldAutoencoder
from transop.networks import (
    ClassifierKind,
    build_classifier,
    classifier_kinds,
    prefer_channels_last,
)
from transop.pairs import nearest_neighbours
from transop.training.autoencoder import load_images
from transop.training.latents import encode_in, make_pairs
from transop.training.loop import Loop
from transop.training.own_modules import load_weights, run_factory
from transop.training.session import Session

PHASE = "classifier"
WEIGHT_DECAY = 1e-4  # of Adam

Inputs = Callable[[Tensor], Tensor]  # positions to what the classifier reads


def train_classifier(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> dict[str, Any]:
    """Give a model its identity: from labels or attributes, the user's classifier, or the graph.

    ``identity.source`` says which of them. What is returned is whose opinion it is, and how good
    it is, where that can be measured.
    """
    source = choose_source(session.settings, dataset)
    if source is None:
        raise SettingsError(
            f"data set '{dataset.meta.name}' has no labels and too few images for a neighbour "
            "graph; set classifier.epochs = 0"
        )
    identity = _SOURCES[source](session, model, dataset)
    prefer_channels_last(identity.network)  # as when loaded: another layout rounds otherwise
    identity.network.eval()
    identity.install(model)
    numbers = {"identity": identity.describe(), **identity.facts}
    if (kind := _further_kind(identity.recipe)) is not None:
        return numbers | kind.measure(identity.network, dataset)
    if dataset.labels is None or source == "graph":
        return numbers
    return numbers | {
        "test_accuracy": classifier_accuracy(model.classify, dataset, held_out_rows(dataset))
    }


def _from_labels(session: Session, model: ManifoldAutoencoder, dataset: ImageDataset) -> Identity:
    """Train a classifier on labels, or on what another package's kind of classifier tells."""
    network, recipe = _make(session, model, dataset)
    network.to(session.device)
    prefer_channels_last(network)
    if (kind := _further_kind(recipe)) is not None:
        kind.train(session, network, dataset, model)
    elif dataset.labels is None:
        raise SettingsError(
            f"data set '{dataset.meta.name}' has no labels to train a classifier on; give "
            "classifier.factory and classifier.weights, or set classifier.epochs = 0"
        )
    else:
        labels = torch.from_numpy(dataset.labels[dataset.splits["train"]])
        _train(session, network, _inputs(session, model, dataset), labels)
    return Identity("labels", network, session.settings.classifier.domain, recipe)


def _from_weights(session: Session, model: ManifoldAutoencoder, dataset: ImageDataset) -> Identity:
    """Take the user's own classifier as it is."""
    network, recipe = _make(session, model, dataset)
    assert session.settings.classifier.weights is not None, "choose_source has checked"
    load_weights(network, "classifier.weights", session.settings.classifier.weights)
    network.to(session.device)
    return Identity("classifier", network, session.settings.classifier.domain, recipe)


def _from_graph(session: Session, model: ManifoldAutoencoder, dataset: ImageDataset) -> Identity:
    """Find communities of the neighbour graph and train a soft latent classifier on them."""
    latents = encode_in(session, model.autoencoder, dataset) / model.latent_scale
    positions = _sampled(session, len(latents))
    communities = _communities(session, model, dataset, latents[positions].cpu(), positions)
    numbers = {"latent_dimension": model.latent_dimension, "n_classes": communities.n_communities}
    with session.seeded("weights", PHASE):
        network = build_classifier("latent-mlp", **numbers).to(session.device)
    points = latents[positions]
    shares = torch.from_numpy(communities.shares).float()
    _train(session, network, lambda chosen: points[chosen], shares)
    facts: dict[str, Any] = {"n_communities": communities.n_communities}
    if dataset.labels is not None:
        labels = dataset.labels[dataset.splits["train"][positions.numpy()]]
        found = agreement(communities.members, labels)
        facts |= {f"label_{name}": round(value, 4) for name, value in found.items()}
    return Identity(
        "graph", network, "latent", {"network": "latent-mlp", "numbers": numbers}, facts=facts
    )


_SOURCES: dict[str, Callable[[Session, ManifoldAutoencoder, ImageDataset], Identity]] = {
    "labels": _from_labels,
    "classifier": _from_weights,
    "graph": _from_graph,
}


def _sampled(session: Session, n_images: int) -> Tensor:
    """Choose the training images the graph is made of: all, or a sample of the largest size."""
    most = session.settings.identity.most_images
    if n_images <= most:
        return torch.arange(n_images)
    drawn = torch.randperm(n_images, generator=session.generator(PHASE, "graph"))
    return drawn[:most].sort().values


def _communities(
    session: Session,
    model: ManifoldAutoencoder,
    dataset: ImageDataset,
    points: Float[Tensor, "n d"],
    positions: Tensor,
) -> Communities:
    """Join neighbours in latent space and the run's pairs, and find the graph's communities."""
    settings, tables = session.settings.identity, []
    all_used = len(positions) == len(dataset.splits["train"])
    if settings.graph != "latent" and all_used:
        pairs = make_pairs(session, model.autoencoder, dataset)
        tables += [] if pairs.neighbours is None else [pairs.neighbours]
    if settings.graph != "perceptual" or not tables:
        k = min(settings.n_neighbours, len(points) - 1)
        tables.append(nearest_neighbours(points, k, progress=session.progress))
    return find_communities(
        neighbour_graph(*tables), settings.n_communities, seed=session.settings.runtime.seed
    )


def _train(
    session: Session, classifier: nn.Module, inputs_of: Inputs, targets: Shaped[Tensor, "n ..."]
) -> None:
    """Train a classifier on targets: a class number each, or a share of every class."""
    settings = session.settings.classifier
    optimiser = torch.optim.Adam(
        classifier.parameters(), settings.learning_rate, weight_decay=WEIGHT_DECAY, fused=True
    )
    wrapped = session.set_up(classifier)
    loop = Loop.over(
        session,
        PHASE,
        settings,
        torch.arange(len(targets)),
        modules={"classifier": classifier},
        optimisers={"classifier": optimiser},
    )
    classifier.train()
    for _ in loop:
        (chosen,) = loop.batch()
        logits = wrapped(inputs_of(chosen)).float()
        truth = targets[chosen].to(logits.device)
        value = cross_entropy(logits, truth)
        if loop.minimise(optimiser, value):
            named = truth if truth.ndim == 1 else truth.argmax(1)
            correct = (logits.argmax(1) == named).float().mean().item()
            loop.record(loss=value.item(), accuracy=correct)


def _inputs(session: Session, model: ManifoldAutoencoder, dataset: ImageDataset) -> Inputs:
    """Say how positions in the training split become what the classifier reads."""
    rows = dataset.splits["train"]
    if session.settings.classifier.domain == "image":
        return lambda chosen: load_images(dataset, rows[chosen.numpy()], session)
    latents = encode_in(session, model.autoencoder, dataset) / model.latent_scale
    return lambda chosen: latents[chosen.to(latents.device)]


def _make(
    session: Session, model: ManifoldAutoencoder, dataset: ImageDataset
) -> tuple[nn.Module, dict[str, Any]]:
    """Build the classifier the settings name, and what builds it again."""
    settings = session.settings.classifier
    with session.seeded("weights", PHASE):
        if settings.factory is not None:
            return call_factory(settings.factory), {"factory": settings.factory}
        for kind in classifier_kinds().values():
            if kind.suits(settings, dataset):
                return kind.make(session, dataset)
        suited = {"image": "lenet", "latent": "latent-mlp"}[settings.domain]
        if settings.network not in ("auto", suited):
            raise SettingsError(
                f"classifier.network = '{settings.network}' does not read the domain "
                f"'{settings.domain}'; use '{suited}' or change classifier.domain"
            )
        numbers = {"n_classes": max(2, dataset.n_classes)}
        if settings.domain == "image":
            numbers |= {"image_size": dataset.image_size, "channels": dataset.n_channels}
        else:
            numbers |= {"latent_dimension": model.latent_dimension}
        return build_classifier(suited, **numbers), {"network": suited, "numbers": numbers}


def _further_kind(recipe: dict[str, Any] | None) -> ClassifierKind | None:
    """Find the kind of a classifier that another package has made, by its recipe."""
    return classifier_kinds().get((recipe or {}).get("network", ""))


def call_factory(name: str) -> nn.Module:
    """Build the user's classifier from ``module:function``; the function takes no arguments."""
    classifier = run_factory("classifier.factory", name, "a torch module")
    if not isinstance(classifier, nn.Module):
        raise SettingsError(
            f"classifier.factory = '{name}' returned {type(classifier).__name__}, not a module"
        )
    return classifier
