"""Draw what the operators of a seed do: a whole turn beside the real one, and people relit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ground_truth.measures import Features, Steps, speeds
from ground_truth.relight import guess_lights
from ground_truth.sets import KnownSet
from transop.operators import transport_path
from transop.plotting import image_grid
from transop_app.report.saved import write_figure

TURN = 12  # pictures of a turn
OBJECTS = 2  # trained ones, and unseen ones
LIGHTS = ((0, 0), (-110, 15), (-70, 0), (-35, 15), (35, 15), (70, 0), (110, 15), (0, 45), (0, -35))
PEOPLE = 2

Decode = Callable[[Tensor], Tensor]


def draw_turns(
    file: Path, known: KnownSet, z: Tensor, decode: Decode, operators: Tensor, features: Features
) -> None:
    """Show a whole turn of trained and unseen objects, decoded: their own latents, and the flow.

    The flow starts at the first frame, with the mean coefficients per degree: of the object, or of
    all trained ones for objects that are unseen.
    """
    rate = speeds(features, 0, Steps.of(known, known.train, 0))
    mean = np.mean(list(rate.values()), 0)
    rows, labels, wanted = [], [], np.arange(TURN + 1) * 360 / TURN
    for part, words in ((known.blocks, "trained"), (known.unseen, "unseen")):
        for group in np.unique(known.groups[part])[:OBJECTS]:
            start = part[known.groups[part] == group][0]
            frames = np.flatnonzero(known.groups == group)
            turn = known.turn(np.array(start), frames)[:, 0] % 360
            real = [frames[np.abs((turn - w + 180) % 360 - 180).argmin()] for w in wanted]
            c = torch.from_numpy(360 * rate.get(int(group), mean)).float()
            path = transport_path(operators, c, z[start], torch.linspace(0, 1, TURN + 1))
            rows += [decode(z[real]), decode(path)]
            labels += [f"{words}: own latents", "operators"]
    columns = [f"{turn:.0f}°" for turn in wanted]
    images = torch.stack(rows).numpy()
    write_figure(image_grid(images, row_labels=labels, column_labels=columns), file)


def draw_lights(
    file: Path, known: KnownSet, z: Tensor, decode: Decode, operators: Tensor, features: Features
) -> None:
    """Show unseen people under several lights, decoded: their own latents, and two guesses."""
    rows, labels = [], []
    for person in np.unique(known.groups[known.unseen])[:PEOPLE]:
        true, guesses = guess_lights(z, known, int(person), LIGHTS, operators, features)
        rows += [decode(z[true]), *(decode(guess) for guess in guesses.values())]
        labels += ["own latents", *guesses]
    columns = [f"{azimuth}°, {elevation}°" for azimuth, elevation in LIGHTS]
    images = torch.stack(rows).numpy()
    write_figure(image_grid(images, row_labels=labels, column_labels=columns), file)


PAINTERS = {"turntable": draw_turns, "drawn": draw_turns, "yale": draw_lights}
