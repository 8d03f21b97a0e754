"""Does an image keep its class when a path goes beyond its end point?

Pairs of test images of one class are joined by a model's path; an independent classifier names
every decoded point. Because the l1 penalty lets an operator path stop short of z1, part of the
gain beyond t = 1 is a shorter path. The control takes that part away: a straight line to the very
point the operators reached. What remains above the control is owed to curvature alone.

Models compare only at equal residuals, or at equal shares of the distance. A larger sparsity weight
is a poor way to get there: paths then end beside z1 as much as before it, and what is a little
beside at t = 1 is three times as much at t = 3. `stopping_time` lets every path stop on its way
instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.evaluation import PathModel
from transop.inference import relative_miss, share_covered
from transop.progress import Progress, silent

_CHUNK = 250  # pairs at once: larger chunks fall out of the cache and decode at half the speed
_STOPS = torch.linspace(0.01, 1, 100)  # where on their way paths may be asked to stop


@dataclass(frozen=True)
class ExtrapolationResult:
    """Accuracy along paths and along the straight line to the same end point."""

    times: list[float]
    correct: Float[Tensor, "pairs t"]  # 1 where the classifier names the true class
    control_correct: Float[Tensor, "pairs t"]
    residual: Float[Tensor, " pairs"]  # |z1 - end point| / |z1|
    share_covered: Float[Tensor, " pairs"]  # of the distance from z0 to z1
    stop: float = 1.0  # the time on the inferred path that counts as t = 1

    def accuracy(self) -> list[float]:
        """Share of paths still named correctly, at each time."""
        return [float(value) for value in self.correct.mean(0)]

    def control_accuracy(self) -> list[float]:
        """The same for the straight line to the path's end point."""
        return [float(value) for value in self.control_correct.mean(0)]


def lead_over(
    ours: Float[Tensor, "pairs t"], theirs: Float[Tensor, "pairs t"]
) -> tuple[Float[Tensor, " t"], Float[Tensor, " t"]]:
    """Average the difference over pairs, with the half-width of its 95 % interval.

    The pairs are the same, so their luck cancels.
    """
    difference = ours - theirs
    return difference.mean(0), 1.96 * difference.std(0) / len(difference) ** 0.5


@torch.inference_mode()
def measure_extrapolation(
    model: PathModel,
    classifier: Callable[[Tensor], Tensor],
    first: Float[Tensor, "pairs c h w"],
    second: Float[Tensor, "pairs c h w"],
    labels: Int[Tensor, " pairs"],
    *,
    times: list[float],
    residual: float | None = None,
    covered: float | None = None,
    progress: Progress = silent,
) -> ExtrapolationResult:
    """Follow the model's path for every pair and name each point, with the control beside it.

    Args:
        model: draws the paths.
        classifier: images to logits.
        first: x0 of every pair.
        second: x1 of every pair.
        labels: the class both have.
        times: where on the path, 1 being its end.
        residual: where a path ends: where it misses z1 by this share of |z1|, on average over the
            pairs. If not given, or never as small, where the model's own inference ends it.
        covered: the same as a share of the distance from z0 to z1 that the path covers. |z1| is a
            unit that differs between networks; this one does not.
        progress: announces the chunks.
    """
    assert residual is None or covered is None
    stop = 1.0
    if residual is not None:
        stop = stopping_time(model, first, second, residual)
    elif covered is not None:
        stop = stopping_time(model, first, second, 1 - covered, of="distance")
    when = stop * torch.tensor([1.0, *times])
    correct, control, missing, shares = [], [], [], []
    starts = range(0, len(first), _CHUNK)
    for start in progress(starts, "following paths", len(starts)):
        chunk = slice(start, start + _CHUNK)
        z0, z1 = model.encode(first[chunk]), model.encode(second[chunk])
        path = model.latent_path(z0, z1, when.to(z0))
        end, path = path[:, :1], path[:, 1:]
        line = z0[:, None] + when[1:, None].to(z0) / stop * (end - z0[:, None])
        missed = (z1 - end[:, 0]).norm(dim=1)
        missing.append(relative_miss(missed, z1))
        shares.append(share_covered(missed, z0, z1))
        truth = labels[chunk].to(z0.device)[:, None]
        correct.append(_classes(model, classifier, path) == truth)
        control.append(_classes(model, classifier, line) == truth)
    return ExtrapolationResult(
        times=list(times),
        correct=torch.cat(correct).float().cpu(),
        control_correct=torch.cat(control).float().cpu(),
        residual=torch.cat(missing).cpu(),
        share_covered=torch.cat(shares).cpu(),
        stop=stop,
    )


@torch.inference_mode()
def stopping_time(
    model: PathModel,
    first: Float[Tensor, "pairs c h w"],
    second: Float[Tensor, "pairs c h w"],
    miss: float,
    *,
    of: Literal["target", "distance"] = "target",
) -> float:
    """Find when the mean of |z1 - z(t)| / |z1| over all pairs first falls to ``miss``.

    With ``of="distance"`` it is |z1 - z(t)| / |z1 - z0|. The answer is one time for all pairs,
    interpolated between hundredths of the way; 1 if the paths do not come so close.
    """
    misses = torch.zeros(len(_STOPS), dtype=torch.float64)
    for start in range(0, len(first), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        z0, z1 = model.encode(first[chunk]), model.encode(second[chunk])
        path = model.latent_path(z0, z1, _STOPS.to(z0))
        for i, points in enumerate(path.unbind(1)):
            missed = (z1 - points).norm(dim=1)
            whole = of == "distance"
            parts = 1 - share_covered(missed, z0, z1) if whole else relative_miss(missed, z1)
            misses[i] += float(parts.double().sum())
    misses /= len(first)
    close = (misses <= miss).nonzero()
    if not len(close):
        return 1.0
    after = int(close[0])
    if after == 0:
        return float(_STOPS[0])
    share = (misses[after - 1] - miss) / (misses[after - 1] - misses[after])
    return float(_STOPS[after - 1] + share * (_STOPS[after] - _STOPS[after - 1]))


def _classes(
    model: PathModel, classifier: Callable[[Tensor], Tensor], points: Float[Tensor, "b t d"]
) -> Int[Tensor, "b t"]:
    """Name every decoded point, one time at a time so that memory stays small."""
    columns = [classifier(model.decode(column)).argmax(1) for column in points.unbind(1)]
    return torch.stack(columns, dim=1)
