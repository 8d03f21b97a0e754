"""What is measured: coefficients against angles, whole turns, and turning what was never seen.

Everything takes latents of all images and rows of a `KnownSet`. Angles enter here only: to choose
and scale what stands for the angle on training rows, and to score it on rows held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import transop
from ground_truth.sets import KnownSet
from transop.inference import ConvergenceWarning
from transop.operators import transport, transport_path

PAIRS = 1000  # steps that are measured, of training rows and of rows held out each
STARTS = 8  # whole turns per object
POINTS = 72  # of a whole turn
BEFORE = 6.0  # degrees between the two frames from which a turn is continued
AHEAD = (6.0, 12.0, 24.0, 48.0)  # degrees that it is continued by
RIDGE = 1e-3  # of linear regressions, as a share of the mean variance

Features = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Steps:
    """Small turns of objects: two rows each, the turn by every factor, and the object."""

    start: np.ndarray
    end: np.ndarray
    turn: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, known: KnownSet, rows: np.ndarray, seed: int) -> Steps:
        """Draw steps between these rows."""
        start, end = known.steps(rows)
        chosen = np.random.default_rng(seed).permutation(len(start))[:PAIRS]
        start, end = start[chosen], end[chosen]
        return cls(start, end, known.turn(start, end), known.groups[start])


def coefficients_of(operators: Tensor, z: Tensor, weight: float) -> Features:
    """Read inferred coefficients off pairs of rows."""

    def features(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = transop.infer_coefficients(operators, z[start], z[end], sparsity_weight=weight)
        return found.coefficients.numpy()

    return features


def differences_of(z: Tensor, train: np.ndarray) -> Features:
    """Read differences along latent axes and along principal directions off pairs of rows."""
    spread = z[train] - z[train].mean(0)
    directions = torch.linalg.svd(spread, full_matrices=False).Vh

    def features(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        difference = z[end] - z[start]
        return torch.cat([difference, difference @ directions.T], 1).numpy()

    return features


def explained(truth: np.ndarray, guess: np.ndarray) -> float:
    """Give R squared: one is perfect, zero is as good as the mean, below is worse."""
    return float(1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


def _slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Regress y on every column of x by itself, without a constant."""
    return (x * y[:, None]).sum(0) / np.maximum((x * x).sum(0), 1e-12)


def _own_slopes(x: np.ndarray, y: np.ndarray, group: np.ndarray) -> dict[int, np.ndarray]:
    return {int(g): _slopes(x[group == g], y[group == g]) for g in np.unique(group)}


def _guess_own(x: np.ndarray, group: np.ndarray, slopes: dict[int, np.ndarray]) -> np.ndarray:
    return np.stack([slopes[int(g)] for g in group]) * x


def _ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    gram = x.T @ x
    gram += (RIDGE * np.trace(gram) / len(gram) + 1e-12) * np.eye(len(gram))
    return np.linalg.solve(gram, x.T @ y)


def one_way(along: np.ndarray, group: np.ndarray) -> float:
    """Give the share of steps on which a coefficient goes the object's usual way; 0.5 is chance."""
    shares = [(along[group == g] > 0).mean() for g in np.unique(group)]
    return float(np.mean([max(share, 1 - share) for share in shares]))


@dataclass(frozen=True)
class Reading:
    """Which column stands for a factor, and how well every reading of the columns follows it."""

    column: int
    scores: dict[str, float]


def read_factor(
    features: Features, factor: int, train: Steps, held_out: Steps, unseen: Steps, calibrate: Steps
) -> Reading:
    """Score single columns and all columns together as a measure of the turn.

    - ``one``: the best column, one slope for all objects.
    - ``own``: the best column where every object has a slope of its own. Pairs never say that two
      objects turn the same way round, so the sign may differ from object to object.
    - ``all``: a linear regression on all columns together, one for all objects.
    - ``one way``: the share of training steps on which the ``own`` column keeps its sign.

    Columns and slopes come from training rows. For unseen objects ``own`` slopes come from
    ``calibrate``, a part of their turn that is not scored.
    """
    x, new, far, some = (features(s.start, s.end) for s in (train, held_out, unseen, calibrate))
    y, y_new, y_far, y_some = (s.turn[:, factor] for s in (train, held_out, unseen, calibrate))
    slopes, own = _slopes(x, y), _own_slopes(x, y, train.group)
    one = int(np.argmax([explained(y, guess) for guess in (slopes * x).T]))
    guesses = _guess_own(x, train.group, own)
    best = int(np.argmax([explained(y, guess) for guess in guesses.T]))
    weights, own_far = _ridge(x, y), _own_slopes(some, y_some, calibrate.group)
    scores = {
        "train one": explained(y, (slopes * x)[:, one]),
        "train own": explained(y, guesses[:, best]),
        "train all": explained(y, x @ weights),
        "held-out one": explained(y_new, (slopes * new)[:, one]),
        "held-out own": explained(y_new, _guess_own(new, held_out.group, own)[:, best]),
        "held-out all": explained(y_new, new @ weights),
        "unseen one": explained(y_far, (slopes * far)[:, one]),
        "unseen own": explained(y_far, _guess_own(far, unseen.group, own_far)[:, best]),
        "unseen all": explained(y_far, far @ weights),
        "one way": one_way(x[:, best] * y, train.group),
    }
    return Reading(best, scores)


def speeds(features: Features, factor: int, steps: Steps) -> dict[int, np.ndarray]:
    """Give the mean coefficients per degree, object by object."""
    x, turn = features(steps.start, steps.end), steps.turn[:, factor]
    return {
        int(g): (x[steps.group == g] * turn[steps.group == g, None]).sum(0)
        / (turn[steps.group == g] ** 2).sum()
        for g in np.unique(steps.group)
    }


def cumulative(
    features: Features, known: KnownSet, rows: np.ndarray, column: int, step: int = 8
) -> float:
    """Add up one coefficient along whole turns; give its R squared with the angle.

    Frames ``step`` apart are joined, each object is scaled on its own, and signs are free.
    """
    scores = []
    for group in np.unique(known.groups[rows]):
        frames = rows[known.groups[rows] == group]
        frames = frames[np.argsort(known.angles[frames, 0])][::step]
        total = np.cumsum(features(frames[:-1], frames[1:])[:, column])
        angle = known.angles[frames[1:], 0]
        scores.append(np.corrcoef(total, angle)[0, 1] ** 2 if total.std() > 0 else 0.0)
    return float(np.mean(scores))


def whole_turns(
    operators: Tensor, z: Tensor, known: KnownSet, rows: np.ndarray, rate: dict[int, np.ndarray]
) -> dict[str, float]:
    """Follow the flow of given coefficients per degree for 360 degrees, from frames of ``rows``.

    - ``closing``: distance of the end from the start, divided by the length of the path.
    - ``angle error``: mean difference, in degrees, between the angle asked for and that of the
      nearest real frame of the object; 90 is chance.
    - ``shown``: share of the 18 blocks of 20 degrees that are the nearest one at some point.
    - ``off``: mean distance to the nearest real frame, divided by the mean distance of the
      object's frames from their mean.
    - ``length``: length of the path, divided by that of the real turn.
    """
    found: list[list[float]] = []
    for group in np.unique(known.groups[rows]):
        starts = rows[known.groups[rows] == group]
        starts = starts[np.linspace(0, len(starts) - 1, STARTS).astype(int)]
        coefficients = torch.from_numpy(360 * rate[int(group)]).float().expand(len(starts), -1)
        times = torch.linspace(0, 1, POINTS + 1)
        paths = transport_path(operators, coefficients, z[starts], times)
        found += [
            _look_at(path, z, known, start) for path, start in zip(paths, starts, strict=True)
        ]
    names = ("closing", "angle error", "shown", "off", "length")
    return dict(zip(names, np.median(found, 0).tolist(), strict=True))


def _look_at(path: Tensor, z: Tensor, known: KnownSet, start: int) -> list[float]:
    frames = np.flatnonzero(known.groups == known.groups[start])
    angle = known.angles[frames, 0] % 360
    order = frames[known.angles[frames, 0] < 360]
    around = (z[order].roll(-1, 0) - z[order]).norm(dim=1).sum()
    length = (path[1:] - path[:-1]).norm(dim=1).sum()
    near = torch.cdist(path, z[frames]).min(1)
    shown = angle[near.indices.numpy()]
    asked = known.angles[start, 0] + np.linspace(0, 360, POINTS + 1)
    error = np.abs((shown - asked + 180) % 360 - 180).mean()
    radius = (z[frames] - z[frames].mean(0)).norm(dim=1).mean()
    return [
        # A path that left the numbers behind ends as far away as it is long.
        float((path[-1] - path[0]).norm() / length) if length.isfinite() else 1.0,
        float(error),
        len(np.unique(shown // 20)) / 18,
        float(near.values.mean() / radius),
        float(length / around),
    ]


def turn_on(
    z: Tensor,
    known: KnownSet,
    rows: np.ndarray,
    operators: Tensor | None = None,
    features: Features | None = None,
) -> dict[str, dict[str, float]]:
    """Continue the turn of two frames, and measure the distance to the true frame.

    Frames 6 degrees apart are given. Distances are divided by that of standing still, and medians
    are given, because some paths run away. The
    third row goes straight to where the operators' path ends: it stops as short as they do.
    """
    start, now, ahead = _triples(known, rows)
    step = z[now] - z[start]
    found: dict[str, dict[str, float]] = {"straight line": {}}
    if operators is not None and features is not None:
        c = torch.from_numpy(features(start, now))
        reached = transport(operators, c, z[start]) - z[start]
        found |= {"operators": {}, "straight line of their length": {}}
    for degrees, target in ahead.items():
        t, ok = degrees / BEFORE, target >= 0
        true, base = z[target[ok]], z[now[ok]]
        still = (true - base).norm(dim=1).clamp_min(1e-9)
        guesses = {"straight line": base + t * step[ok]}
        if operators is not None and features is not None:
            guesses["operators"] = transport(operators, t * c[ok], base)
            guesses["straight line of their length"] = base + t * reached[ok]
        for name, guess in guesses.items():
            found[name][f"{degrees:.0f}"] = float(((true - guess).norm(dim=1) / still).median())
    return found


def _triples(
    known: KnownSet, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[float, np.ndarray]]:
    """Find frames `BEFORE` degrees before each row and several degrees after it; -1 for none."""

    def away(row: int, degrees: float) -> int:
        frames = np.flatnonzero(known.groups == known.groups[row])
        miss = np.abs(known.turn(np.array(row), frames)[:, 0] - degrees)
        best = miss.argmin()
        return int(frames[best]) if miss[best] < 1.0 else -1

    now = rows[:: max(1, len(rows) // 300)]
    start = np.array([away(row, -BEFORE) for row in now])
    now, start = now[start >= 0], start[start >= 0]
    return start, now, {d: np.array([away(row, d) for row in now]) for d in AHEAD}


def fitted_generator(z: Tensor, steps: Steps, ridge: float = 1e-3) -> Tensor:
    """Fit dz = turn A z by least squares, with the angle: what a linear flow could do at best."""
    turn = torch.from_numpy(steps.turn[:, :1])
    middle = (z[steps.start] + z[steps.end]).double() / 2 * turn
    step = (z[steps.end] - z[steps.start]).double()
    gram = middle.T @ middle
    gram += ridge * gram.trace() / len(gram) * torch.eye(len(gram)).double()
    return torch.linalg.solve(gram, middle.T @ step).T.float()


def along_generator(generator: Tensor, z: Tensor) -> Features:
    """Read the turn off a pair by projecting its difference on the flow of one generator."""

    def features(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        flow = (z[start] + z[end]) / 2 @ generator.T
        size = flow.square().sum(1).clamp_min(1e-9)
        return ((z[end] - z[start]) * flow).sum(1, keepdim=True).div(size[:, None]).numpy()

    return features


def smoothness(z: Tensor, known: KnownSet, rows: np.ndarray) -> dict[str, float]:
    """Compare the direction of the turn at two places: mean cosine of steps of 6 degrees."""
    frames_of = [np.flatnonzero(known.groups == g) for g in np.unique(known.groups[rows])]
    found = {}
    for degrees in (6, 12, 24, 48):
        values = []
        for frames in frames_of:
            spacing = 360 / np.sum(known.angles[frames, 0] < 360)
            k, lag = max(1, round(6 / spacing)), round(degrees / spacing)
            step = z[frames[k:]] - z[frames[:-k]]
            values.append(float(torch.cosine_similarity(step[lag:], step[:-lag]).mean()))
        found[str(degrees)] = float(np.mean(values))
    return found
