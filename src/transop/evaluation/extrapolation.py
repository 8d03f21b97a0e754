"""Does an image keep its class when a path goes beyond its end point?

Pairs of test images of one class are joined by a model's path; an independent classifier names
every decoded point. Because the l1 penalty lets an operator path stop short of z1, part of the
gain beyond t = 1 is a shorter path. The control takes that part away: a straight line to the very
point the operators reached. What remains above the control is owed to curvature alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.evaluation.protocol import PathModel
from transop.evaluation.reconstruction import CHUNK
from transop.inference import relative_miss, way_covered
from transop.progress import Progress, silent


@dataclass(frozen=True)
class ExtrapolationResult:
    """Accuracy along paths and along the straight line to the same end point."""

    times: list[float]
    correct: Float[Tensor, "pairs t"]  # 1 where the classifier names the true class
    control_correct: Float[Tensor, "pairs t"]
    residual: Float[Tensor, " pairs"]  # |z1 - end point| / |z1|
    way: Float[Tensor, " pairs"]  # share of the way from z0 to z1 that the path covers

    def accuracy(self) -> list[float]:
        """Share of paths still named correctly, at each time."""
        return [float(value) for value in self.correct.mean(0)]

    def control_accuracy(self) -> list[float]:
        """The same for the straight line to the path's end point."""
        return [float(value) for value in self.control_correct.mean(0)]

    def interval(self) -> list[float]:
        """Half-width of the 95 % interval of the accuracy, at each time."""
        share = self.correct.mean(0)
        return [float(v) for v in 1.96 * (share * (1 - share) / len(self.correct)).sqrt()]


def lead_over(
    ours: Float[Tensor, "pairs t"], theirs: Float[Tensor, "pairs t"]
) -> tuple[Float[Tensor, " t"], Float[Tensor, " t"]]:
    """Average the difference over pairs, with the half-width of its 95 % interval.

    The pairs are the same, so their luck cancels.
    """
    difference = ours - theirs
    return difference.mean(0), 1.96 * difference.std(0) / len(difference) ** 0.5


def same_class_pairs(
    labels: Int[np.ndarray, " n"], n_per_class: int, generator: torch.Generator
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Draw pairs of different positions that carry the same label.

    Args:
        labels: one class per image.
        n_per_class: pairs drawn for each class that has at least two images.
        generator: source of randomness.

    Returns:
        Positions of the first and of the second image of every pair.
    """
    first, second = [], []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            continue
        start = torch.randint(len(members), (n_per_class,), generator=generator).numpy()
        shift = torch.randint(1, len(members), (n_per_class,), generator=generator).numpy()
        first.append(members[start])
        second.append(members[(start + shift) % len(members)])
    return np.concatenate(first), np.concatenate(second)


@torch.inference_mode()
def measure_extrapolation(
    model: PathModel,
    classifier: Callable[[Tensor], Tensor],
    first: Float[Tensor, "pairs c h w"],
    second: Float[Tensor, "pairs c h w"],
    labels: Int[Tensor, " pairs"],
    *,
    times: list[float],
    progress: Progress = silent,
) -> ExtrapolationResult:
    """Follow the model's path for every pair and name each point, with the control beside it."""
    when = torch.tensor([1.0, *times])
    correct, control, residual, way = [], [], [], []
    starts = range(0, len(first), CHUNK)
    for start in progress(starts, "following paths", len(starts)):
        chunk = slice(start, start + CHUNK)
        z0, z1 = model.encode(first[chunk]), model.encode(second[chunk])
        path = model.latent_path(z0, z1, when.to(z0))
        end, path = path[:, :1], path[:, 1:]
        line = z0[:, None] + when[1:, None].to(z0) * (end - z0[:, None])
        missed = (z1 - end[:, 0]).norm(dim=1)
        residual.append(relative_miss(missed, z1))
        way.append(way_covered(missed, z0, z1))
        truth = labels[chunk].to(z0.device)[:, None]
        correct.append(_classes(model, classifier, path) == truth)
        control.append(_classes(model, classifier, line) == truth)
    return ExtrapolationResult(
        times=list(times),
        correct=torch.cat(correct).float().cpu(),
        control_correct=torch.cat(control).float().cpu(),
        residual=torch.cat(residual).cpu(),
        way=torch.cat(way).cpu(),
    )


def _classes(
    model: PathModel, classifier: Callable[[Tensor], Tensor], points: Float[Tensor, "b t d"]
) -> Int[Tensor, "b t"]:
    """Name every decoded point, one time at a time so that memory stays small."""
    columns = [classifier(model.decode(column)).argmax(1) for column in points.unbind(1)]
    return torch.stack(columns, dim=1)
