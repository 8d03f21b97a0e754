"""A classifier that watches over identity while an augmentation goes far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transop.augment.walk import retrace
from transop.errors import UserError, show
from transop.inputs import check_choice, check_floats, check_number, check_tensor, check_whole

if TYPE_CHECKING:
    from transop.augment.executor import Executor
    from transop.augment.start import Start
    from transop.identity import Identity
    from transop.model import ManifoldAutoencoder

_CHUNK = 250  # images through a user's classifier at once
_SHORTER = 0.5

Draw = Callable[[Tensor], tuple[Tensor, Tensor]]  # points to ends and coefficients of walks


class Guard(nn.Module):
    """Refuses moves after which a classifier no longer gives an image its name.

    A refused move is drawn again, at most ``attempts`` times; then the last one is halved, at
    most ``shortenings`` times; what is refused even then stays as it was. The guard uses
    whatever supervision its classifier was trained with: say so beside any number it improves.

    Attributes:
        classifier: gives logits, or None for the model's own.
        threshold: least probability that the name must keep.
        attempts: how often a refused move is drawn again.
        shortenings: how often the last refused move is then halved.
        domain: whether ``classifier`` reads images or scaled latents.
    """

    classifier: Callable[[Tensor], Tensor] | None

    def __init__(
        self,
        classifier: Callable[[Tensor], Tensor] | None = None,
        threshold: float = 0.8,
        *,
        attempts: int = 8,
        shortenings: int = 3,
        domain: Literal["image", "latent"] = "image",
    ) -> None:
        super().__init__()
        if classifier is not None and not callable(classifier):
            raise UserError(f"classifier = {show(classifier)} must be a module or a function")
        check_choice("domain", domain, ("image", "latent"))
        self.__dict__["classifier"] = classifier  # no submodule: nobody must train or store it
        self.threshold = check_number("threshold", threshold, "a probability, from 0 to 1", high=1)
        self.attempts = check_whole("attempts", attempts, least=0)
        self.shortenings = check_whole("shortenings", shortenings, least=0)
        self.domain: Literal["image", "latent"] = domain
        self.eval()

    def train(self, mode: bool = True) -> Guard:
        """Stay in evaluation mode: dropping units at random would change the classes."""
        del mode
        if isinstance(self.classifier, nn.Module):
            self.classifier.eval()
        return super().train(False)

    def describe(self, model: ManifoldAutoencoder) -> str:
        """Say in words whose opinion a move must keep."""
        if self.classifier is not None:
            return "a classifier passed to the guard"
        return _identity(model).describe()

    def knows_labels(self, model: ManifoldAutoencoder) -> bool:
        """Say whether the classifier's classes are labels; groups of a graph are not."""
        return self.classifier is not None or _identity(model).source != "graph"

    def reads_images(self, model: ManifoldAutoencoder) -> bool:
        """Say whether moved points must be decoded before they can be classified."""
        domain = model.classifier_domain if self.classifier is None else self.domain
        return domain == "image"

    def logits(
        self, model: ManifoldAutoencoder, inputs: Float[Tensor, "b ..."]
    ) -> Float[Tensor, "b k"]:
        """Ask the classifier, about images or latents as :meth:`reads_images` says."""
        classifier = model.classifier if self.classifier is None else self.classifier
        if classifier is None:
            raise UserError(
                "the guard has no classifier and the model no identity; pass Guard(classifier) or "
                "train the phase 'classifier'"
            )
        with torch.no_grad():
            answers = [
                check_floats("the classifier's answer", classifier(chunk))
                for chunk in torch.split(inputs, _CHUNK)
            ]
        wrong = [answer for answer in answers if answer.ndim != 2]
        if wrong or sum(map(len, answers)) != len(inputs):
            shape = tuple((wrong or answers)[0].shape)
            raise UserError(
                f"the guard's classifier returned shape {shape} for {len(inputs)} inputs; it must "
                "return logits of shape (inputs, classes)"
            )
        return torch.cat(answers)

    def accepts(self, logits: Float[Tensor, "b k"], names: Int[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Say which points are still called by their names."""
        n_classes = logits.shape[1]
        if len(names) and not (int(names.min()) >= 0 and int(names.max()) < n_classes):
            raise UserError(
                f"labels go from {int(names.min())} to {int(names.max())}, but the guard's "
                f"classifier knows the classes 0 to {n_classes - 1}"
            )
        sure = logits.softmax(1).gather(1, names[:, None])[:, 0] >= self.threshold
        return sure & (logits.argmax(1) == names)


def _identity(model: ManifoldAutoencoder) -> Identity:
    """Read whose opinion a model keeps; loaded on demand, as it brings clustering with it."""
    from transop.identity import Identity

    return Identity.of(model)


def make_guard(guard: Any, model: ManifoldAutoencoder) -> Guard | None:
    """Take a guard as it is; a probability becomes one with the model's own classifier."""
    if guard is None:
        return None
    chosen = guard if isinstance(guard, Guard) else Guard(threshold=guard)
    if chosen.classifier is None and not model.names_classes:
        raise UserError(
            "guard: the model has no classifier that names classes; pass Guard(classifier), or "
            "train the phase 'classifier'"
        )
    return chosen


def check_labels(labels: Any, n_images: int, device: torch.device) -> Int[Tensor, " b"]:
    """Bring labels to a device; a guard looks up whether it knows them."""
    names = check_tensor("labels", labels)
    if names.shape != (n_images,) or names.is_floating_point() or names.dtype == torch.bool:
        raise UserError(
            f"labels have type {names.dtype} and shape {tuple(names.shape)}; pass one class "
            f"number for each of the {n_images} images"
        )
    return names.long().to(device)


@dataclass
class GuardedWalks:
    """Where guarded walks ended, and what it took."""

    ends: Float[Tensor, "b d"]
    coefficients: Float[Tensor, "b s m"]
    draws: Int[Tensor, " b"]  # moves tried; 1 if the first was accepted
    accepted: Bool[Tensor, " b"]
    pictures: Float[Tensor, "b c h w"] | None  # decoded ends, if the guard had to look at them


def walk_guarded(
    networks: Executor, guard: Guard, draw: Draw, start: Start, *, all_or_none: bool = False
) -> GuardedWalks:
    """Draw walks, again and shorter, until the guard accepts them or is out of attempts.

    Most points pass at once or at the second try. Those left over get more tries together (one,
    two, four and so on), so that few of them do not take many rounds. ``all_or_none`` accepts a
    draw only if every point accepts it.
    """
    model, latents = networks.model, start.latents
    rows = torch.arange(len(latents), device=latents.device)
    judge = _Judge(networks, guard, start, all_or_none)
    found = judge.first(*draw(latents))
    rows, left, n_tries = rows[~found.accepted], guard.attempts, 1
    while left and len(rows):
        n_tries = min(left, n_tries)
        rows = judge.again(found, rows, *draw(latents[rows.repeat_interleave(n_tries)]))
        left -= n_tries
        n_tries = 1 if all_or_none else 2 * n_tries
    left = guard.shortenings
    while left and len(rows):
        n_tries = 1 if all_or_none else left
        powers = _SHORTER ** torch.arange(1, n_tries + 1, device=latents.device).to(latents)
        shorter = (found.coefficients[rows][:, None] * powers[:, None, None]).flatten(0, 1)
        origins = latents[rows.repeat_interleave(n_tries)]
        rows = judge.again(found, rows, retrace(model.transport, origins, shorter), shorter)
        left -= n_tries
    return found


@dataclass(frozen=True)
class _Judge:
    """Asks a guard about the ends of walks and notes down what it accepts."""

    networks: Executor
    guard: Guard
    start: Start
    all_or_none: bool

    def first(self, ends: Tensor, coefficients: Tensor) -> GuardedWalks:
        """Note down the first walk of every point."""
        rows = torch.arange(len(ends), device=ends.device)
        accepted, pictures = self._look(rows, ends)
        return GuardedWalks(ends, coefficients, torch.ones_like(rows), accepted, pictures)

    def again(
        self, found: GuardedWalks, rows: Tensor, ends: Tensor, coefficients: Tensor
    ) -> Int[Tensor, " r"]:
        """Take the first accepted of several tries per row, else the last; give what is refused.

        The tries of one row come one after another.
        """
        n_tries = len(ends) // len(rows)
        accepted, pictures = self._look(rows.repeat_interleave(n_tries), ends)
        accepted = accepted.reshape(len(rows), n_tries)
        passed = accepted.any(1)
        chosen = torch.where(passed, accepted.int().argmax(1), n_tries - 1)
        tries = torch.arange(len(rows), device=rows.device) * n_tries + chosen
        found.ends[rows], found.coefficients[rows] = ends[tries], coefficients[tries]
        found.accepted[rows] = passed
        found.draws[rows] += chosen + 1
        if pictures is not None and found.pictures is not None:
            found.pictures[rows] = pictures[tries]
        return rows[~passed]

    def _look(self, rows: Tensor, ends: Tensor) -> tuple[Bool[Tensor, " r"], Tensor | None]:
        """Ask whether points may end there; decoded, if the classifier reads images."""
        model, rest, names = self.networks.model, self.start.rest, self.start.names
        assert names is not None
        pictures = None
        if self.guard.reads_images(model):
            pictures = self.networks.decode(ends, None if rest is None else rest[rows])
        logits = self.guard.logits(model, ends if pictures is None else pictures)
        accepted = self.guard.accepts(logits, names[rows])
        if self.all_or_none:
            accepted = accepted.all().expand_as(accepted).clone()
        return accepted, pictures
