"""Relight a person nobody trained with, by what the same change of light did to other people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ground_truth.measures import Features
from ground_truth.sets import LIGHT, KnownSet
from transop.operators import transport

TEACHERS = 8  # people who show every change of light
CHANGES = 400  # changes of light that are tried

Change = tuple[int, int]  # two lights, as numbers


def relight(
    z: Tensor,
    known: KnownSet,
    seed: int,
    operators: Tensor | None = None,
    features: Features | None = None,
    decode: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, dict[str, float]]:
    """Move unseen people by the mean coefficients, or the mean difference, of eight others.

    ``near`` changes are at most 45 degrees, ``front`` leads from frontal light to every other.
    Distances to the true latent are divided by that of standing still. ``pixels`` is the mean
    squared error of the decoded image against the photograph, for ``front``.
    """
    lights, number = np.unique(known.angles, axis=0, return_inverse=True)
    number = number.ravel()
    chance = np.random.default_rng(seed)
    found: dict[str, dict[str, float]] = {}
    for kind, changes in _changes(lights, chance).items():
        teachers, starts, ends = _lessons(known, number, changes, chance)
        guesses = _guess(z, teachers, starts, operators, features)
        still = (z[ends] - z[starts]).norm(dim=1).mean()
        for name, guess in guesses.items():
            row = found.setdefault(name, {})
            row[kind] = float((z[ends] - guess).norm(dim=1).mean() / still)
            if decode is not None and kind == "front":
                row["pixels"] = _pixel_error(decode(guess), known.images[ends])
        if decode is not None and kind == "front":
            found["standing still"] = {
                "pixels": _pixel_error(decode(z[starts]), known.images[ends])
            }
            found["reconstruction"] = {"pixels": _pixel_error(decode(z[ends]), known.images[ends])}
    return found


def _changes(lights: np.ndarray, chance: np.random.Generator) -> dict[str, list[Change]]:
    front = int(np.flatnonzero((lights == 0).all(1))[0])
    size = np.abs(lights[:, None] - lights[None]).max(-1)
    near = np.argwhere((size > 0) & (size <= LIGHT))
    near = near[chance.permutation(len(near))[:CHANGES]]
    away = [(front, other) for other in range(len(lights)) if other != front]
    return {"near": [(int(a), int(b)) for a, b in near], "front": away}


def _lessons(
    known: KnownSet, number: np.ndarray, changes: list[Change], chance: np.random.Generator
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """For every change and unseen person: rows of the teachers, and the person's two rows."""
    row_of = {
        (int(g), int(n)): row for row, (g, n) in enumerate(zip(known.groups, number, strict=True))
    }
    pupils = np.unique(known.groups[known.unseen])
    others = np.unique(known.groups[known.train])
    teachers, starts, ends = [], [], []
    for a, b in changes:
        able = [p for p in others if (p, a) in row_of and (p, b) in row_of]
        chosen = chance.permutation(able)[:TEACHERS]
        shown = np.array([row_of[p, a] for p in chosen]), np.array([row_of[p, b] for p in chosen])
        for p in pupils:
            if (p, a) in row_of and (p, b) in row_of:
                teachers.append(shown)
                starts.append(row_of[p, a])
                ends.append(row_of[p, b])
    return teachers, np.array(starts), np.array(ends)


def _guess(
    z: Tensor,
    teachers: list[tuple[np.ndarray, np.ndarray]],
    starts: np.ndarray,
    operators: Tensor | None,
    features: Features | None,
) -> dict[str, Tensor]:
    step = torch.stack([(z[b] - z[a]).mean(0) for a, b in teachers])
    guesses = {"mean difference": z[starts] + step}
    if operators is not None and features is not None:
        a, b = (np.concatenate([pair[side] for pair in teachers]) for side in (0, 1))
        unique, place = np.unique(np.stack([a, b]), axis=1, return_inverse=True)
        c = torch.from_numpy(features(*unique))[place.ravel()]
        sizes = [len(pair[0]) for pair in teachers]
        mean = torch.stack([part.mean(0) for part in c.split(sizes)])
        reached = transport(operators, c, z[a]) - z[a]
        short = torch.stack([part.mean(0) for part in reached.split(sizes)])
        guesses["operators"] = transport(operators, mean, z[starts])
        guesses["mean difference of their paths"] = z[starts] + short
    return guesses


def _pixel_error(decoded: Tensor, images: np.ndarray) -> float:
    truth = torch.from_numpy(images).float() / 255
    return float((decoded - truth).square().mean())


def guess_lights(
    z: Tensor,
    known: KnownSet,
    person: int,
    wanted: tuple[tuple[int, int], ...],
    operators: Tensor,
    features: Features,
) -> tuple[np.ndarray, dict[str, Tensor]]:
    """Relight one unseen person from the front; give the rows of the truth, and the guesses."""
    lights, number = np.unique(known.angles, axis=0, return_inverse=True)
    places = [int(np.flatnonzero((lights == light).all(1))[0]) for light in wanted]
    front = int(np.flatnonzero((lights == 0).all(1))[0])
    changes = [(front, place) for place in places]
    chance = np.random.default_rng(0)
    teachers, starts, ends = _lessons(known, number.ravel(), changes, chance)
    mine = np.flatnonzero(known.groups[starts] == person)
    guesses = _guess(z, [teachers[i] for i in mine], starts[mine], operators, features)
    return ends[mine], {name: guesses[name] for name in ("operators", "mean difference")}
