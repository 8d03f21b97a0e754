"""Train a network on labelled images and on unlabelled ones whose label is likely."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softmax

from transop.errors import UserError
from transop.inputs import check_choice, check_flag, check_number, check_whole
from transop.progress import Progress, silent

Network = TypeVar("Network", bound=nn.Module)
DrawLabelled = Callable[[int], tuple[Tensor, Tensor]]  # images and labels
DrawUnlabelled = Callable[[int], tuple[Tensor, Tensor, Tensor]]  # rows, images, changed images

_AVERAGE_DECAY = 0.99  # of the averaged weights, per step
_MEMORY = 0.99  # of the running mean of predicted classes, per step


@dataclass(frozen=True)
class Consistency:
    """How a network learns from unlabelled images.

    Every step guesses the label of some unlabelled images and, where the guess is likely enough,
    teaches the network to give changed copies of these images the same label.

    Attributes:
        teacher: who guesses: the ``"network"`` itself (FixMatch), the ``"average"`` of its
            weights over the last steps (mean teacher), or nobody (None: a given opinion alone).
        opinion_share: weight of a given opinion beside the teacher's at the end of training; it
            starts at 1, when the teacher knows nothing yet.
        threshold: probability from which a guess is believed.
        balanced: correct the teacher's guesses so that every class is as frequent as among the
            labels.
        loss: cross-entropy to the likeliest ``"class"`` of a guess, to its ``"probabilities"``,
            or the ``"squared"`` difference of probabilities, which believes every guess.
        weight: of the unlabelled images in the loss.
        n_steps: optimiser steps; the learning rate falls to zero along a cosine.
        n_labelled: labelled images per step.
        n_unlabelled: unlabelled images per step.
        learning_rate: of Adam, at the start.
        weight_decay: of Adam.
    """

    teacher: Literal["network", "average"] | None = "average"
    opinion_share: float = 0.5
    threshold: float = 0.0
    balanced: bool = True
    loss: Literal["class", "probabilities", "squared"] = "class"
    weight: float = 3.0
    n_steps: int = 2_000
    n_labelled: int = 50
    n_unlabelled: int = 200
    learning_rate: float = 6e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        if self.teacher is not None:
            check_choice("teacher", self.teacher, ("network", "average"))
        check_choice("loss", self.loss, ("class", "probabilities", "squared"))
        check_flag("balanced", self.balanced)
        checked: dict[str, float] = {}
        for name in ("opinion_share", "threshold"):
            checked[name] = check_number(name, getattr(self, name), "a share, from 0 to 1", high=1)
        for name in ("weight", "learning_rate", "weight_decay"):
            checked[name] = check_number(name, getattr(self, name), "a finite number from 0 on")
        for name in ("n_steps", "n_labelled", "n_unlabelled"):
            checked[name] = check_whole(name, getattr(self, name), least=1)
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else


def train_consistently(
    network: Network,
    draw_labelled: DrawLabelled,
    draw_unlabelled: DrawUnlabelled,
    settings: Consistency,
    *,
    class_shares: Float[Tensor, " k"],
    opinion: Float[Tensor, "n k"] | None = None,
    progress: Progress = silent,
    description: str = "training",
) -> tuple[Network, dict[str, float]]:
    """Train a network in place and give the one to use, with the share of believed guesses.

    Args:
        network: gives logits.
        draw_labelled: gives so many augmented labelled images and their labels.
        draw_unlabelled: gives rows of the opinion, the images as they are, and changed copies.
        settings: how to learn from unlabelled images.
        class_shares: how frequent each class is.
        opinion: probabilities that are known before training, one row per unlabelled image.
        progress: announces the steps.
        description: what to call them.
    """
    if settings.teacher is None and opinion is None:
        raise UserError("teacher = None needs an opinion; give one, or choose a teacher")
    average = copy.deepcopy(network).requires_grad_(False)
    optimiser = torch.optim.Adam(
        network.parameters(), weight_decay=settings.weight_decay, fused=True
    )
    guesses = _Guesses(settings, class_shares, opinion)
    believed = 0.0
    for step in progress(range(settings.n_steps), description, settings.n_steps):
        images, labels = draw_labelled(settings.n_labelled)
        rows, plain, changed = draw_unlabelled(settings.n_unlabelled)
        teacher = average if settings.teacher == "average" else network
        with torch.no_grad():
            target = guesses.at(rows, teacher, plain, step)
        logits = network(torch.cat([images, changed]))
        own, theirs = logits[: len(images)], logits[len(images) :]
        unlabelled, share = _unlabelled_loss(theirs, target, settings)
        loss = cross_entropy(own, labels) + settings.weight * unlabelled
        fall = 0.5 * (1 + math.cos(math.pi * step / settings.n_steps))
        optimiser.param_groups[0]["lr"] = settings.learning_rate * fall
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        _follow(average, network, min(_AVERAGE_DECAY, step / (step + 10)))
        believed += share
    best = average if settings.teacher == "average" else network
    return best.eval(), {"believed": believed / settings.n_steps}


@torch.no_grad()
def _follow(average: nn.Module, network: nn.Module, decay: float) -> None:
    """Bring averaged weights closer to a network's."""
    for mean, weight in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)


class _Guesses:
    """Guesses the labels of unlabelled images."""

    def __init__(self, settings: Consistency, class_shares: Tensor, opinion: Tensor | None) -> None:
        self._settings, self._shares, self._opinion = settings, class_shares, opinion
        self._running = class_shares.clone()

    def at(
        self, rows: Int[Tensor, " b"], teacher: nn.Module, images: Tensor, step: int
    ) -> Float[Tensor, "b k"]:
        """Give the probability of every class, from the teacher, the opinion, or both."""
        settings = self._settings
        if settings.teacher is None:
            assert self._opinion is not None
            return self._opinion[rows]
        guess = softmax(teacher(images), 1)
        if settings.balanced:
            self._running.lerp_(guess.mean(0), 1 - _MEMORY)
            guess = guess * self._shares / self._running.clamp_min(1e-6)
            guess = guess / guess.sum(1, keepdim=True)
        if self._opinion is None:
            return guess
        fall = max(0.0, 1 - 2 * step / settings.n_steps)
        share = settings.opinion_share + (1 - settings.opinion_share) * fall
        return share * self._opinion[rows] + (1 - share) * guess


def _unlabelled_loss(
    logits: Float[Tensor, "b k"], target: Float[Tensor, "b k"], settings: Consistency
) -> tuple[Float[Tensor, ""], float]:
    """Compare the network with the guesses; give the loss and the share of believed guesses."""
    if settings.loss == "squared":
        return (softmax(logits, 1) - target).square().sum(1).mean(), 1.0
    confidence, guess = target.max(1)
    believed = (confidence >= settings.threshold).to(logits)
    wanted = guess if settings.loss == "class" else target
    losses = cross_entropy(logits, wanted, reduction="none")
    return (losses * believed).mean(), float(believed.mean())
