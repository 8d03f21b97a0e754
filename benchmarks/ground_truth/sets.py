"""Photographs whose transformation is known, cut into parts without near twins.

A turntable has one angle and closes after 360 degrees; moving light has two, azimuth and elevation.
Every seed holds out other objects (or people), other blocks of angle, and the frames beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transop.data import DatasetMeta, ImageDataset

BLOCK, EVERY, GAP = 10.0, 4, 2.0  # degrees of a block; every fourth is held out; a gap beside it
STEP = 8.0  # degrees of the largest step of the turntable that is measured
TIME = 6.0  # degrees between partners, where pairs are given by time
LIGHT = 45.0  # degrees of the largest step of the light
SIDE = 32  # pixels to which larger images are brought
FEWEST = 2.0  # degrees of the smallest step: below it jitter is larger than the turn
# Azimuths of the held-out lights, other ones for every seed.
LIGHT_BLOCKS = ((20, 60), (-60, -20), (35, 85))
UNSEEN_PEOPLE = 6


@dataclass(frozen=True)
class KnownSet:
    """Images, the object (or person) in each, and the angles that nobody trains with."""

    name: str
    images: np.ndarray  # n, channels, size, size; bytes
    groups: np.ndarray  # object or person
    angles: np.ndarray  # n, one column per factor, in degrees
    factors: tuple[str, ...]
    closed: bool  # whether a whole turn leads back
    train: np.ndarray
    blocks: np.ndarray  # held-out blocks of angle of the trained objects
    unseen: np.ndarray  # all frames of objects nobody trains with

    def dataset(self) -> ImageDataset:
        """Give the images without any label; the test part is the held-out blocks."""
        splits = {"train": self.train, "validation": self.unseen, "test": self.blocks}
        meta = DatasetMeta(self.name, f"{self.name}, held out by blocks and objects")
        return ImageDataset(self.images, None, splits, meta)

    def steps(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pair rows of one object a small turn apart, both ways; no pair leaves its rows."""
        starts, ends = [], []
        far = STEP if self.closed else LIGHT
        for group in np.unique(self.groups[rows]):
            members = rows[self.groups[rows] == group]
            size = np.abs(self.turn(members[:, None], members[None])).max(-1)
            a, b = np.nonzero((size >= FEWEST) & (size <= far))
            starts.append(members[a])
            ends.append(members[b])
        return np.concatenate(starts), np.concatenate(ends)

    def turn(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Give the signed turn from one row to another, the short way round; last axis factors."""
        difference = self.angles[end] - self.angles[start]
        return (difference + 180) % 360 - 180 if self.closed else difference

    def pairs_by_time(self) -> np.ndarray:
        """List training pairs by what a camera would know: the next moment of the same object.

        On the turntable that is the frame `TIME` degrees later, for lights the four nearest ones.
        """
        found = []
        for group in np.unique(self.groups[self.train]):
            rows = self.train[self.groups[self.train] == group]
            turn = self.turn(rows[:, None], rows[None])
            if self.closed:
                ahead = np.abs(turn[..., 0] - TIME)
                partner = ahead.argmin(1)
                near = ahead[np.arange(len(rows)), partner] < 1.0
                found.append(np.stack([rows, rows[partner]], 1)[near])
            else:
                size = np.linalg.norm(turn, axis=-1)
                partner = size.argsort(1)[:, 1:5]
                found.append(np.stack([rows.repeat(4), rows[partner].ravel()], 1))
        return np.concatenate(found)


def _small(images: np.ndarray) -> np.ndarray:
    """Put channels first, and average square cells of pixels down to the side."""
    n, side, _, channels = images.shape
    cell = max(1, side // SIDE)
    cells = images.reshape(n, side // cell, cell, side // cell, cell, channels)
    return np.rint(cells.mean((2, 4))).astype(np.uint8).transpose(0, 3, 1, 2).copy()


def read_turntable(path: Path, seed: int) -> KnownSet:
    """Read frames of objects on a turntable; hold out two objects and every fourth block."""
    data = np.load(path)
    angle, groups = data["angle_deg"].astype(float), data["labels"].astype(int)
    return _turntable("turntable", data["images"], angle, groups, seed)


def read_drawn(path: Path | None, seed: int) -> KnownSet:
    """Draw a turntable without jitter: the control, where everything is known."""
    del path
    images, angle, groups = draw_turntable()
    return _turntable("drawn", images, angle, groups, seed)


def draw_turntable(
    n_objects: int = 8, n_frames: int = 300, side: int = SIDE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw soft bars that turn round one end, each of a colour, length and width of its own."""
    chance, angles = np.random.default_rng(0), np.arange(n_frames) * 360 / n_frames
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    turn = np.radians(angles)[:, None, None]
    along, across = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    frames = []
    for _ in range(n_objects):
        colour, length, width = chance.random(3), chance.uniform(0.4, 0.7), chance.uniform(2, 6)
        bar = np.exp(-width * across**2 - 6 * (along - length) ** 2)
        frames.append(1 - bar[..., None] * (1 - colour))
    images = (255 * np.concatenate(frames)).astype(np.uint8)
    return images, np.tile(angles, n_objects), np.repeat(np.arange(n_objects), n_frames)


def _turntable(
    name: str, images: np.ndarray, angle: np.ndarray, groups: np.ndarray, seed: int
) -> KnownSet:
    n_objects = groups.max() + 1
    away = np.isin(groups, [seed % n_objects, (seed + n_objects // 2) % n_objects])
    shifted = (angle - BLOCK * seed) % 360
    block = (shifted // BLOCK).astype(int) % EVERY == EVERY // 2
    place = shifted % (BLOCK * EVERY) - BLOCK * (EVERY // 2)  # from the start of a held-out block
    beside = ~block & (place > -GAP) & (place < BLOCK + GAP)
    return KnownSet(
        name,
        _small(images),
        groups,
        angle[:, None],
        ("angle",),
        True,
        np.flatnonzero(~away & ~block & ~beside),
        np.flatnonzero(~away & block),
        np.flatnonzero(away),
    )


def read_yale(path: Path, seed: int) -> KnownSet:
    """Read faces under moving light; hold out six people and a block of azimuth."""
    data = np.load(path)
    angles = np.stack([data["azimuth_deg"], data["elevation_deg"]], 1).astype(float)
    groups = data["labels"].astype(int)
    people = np.random.default_rng(seed).permutation(groups.max() + 1)[:UNSEEN_PEOPLE]
    away = np.isin(groups, people)
    low, high = LIGHT_BLOCKS[seed % len(LIGHT_BLOCKS)]
    block = (angles[:, 0] >= low) & (angles[:, 0] <= high)
    return KnownSet(
        "yale",
        _small(data["images"]),
        groups,
        angles,
        ("azimuth", "elevation"),
        False,
        np.flatnonzero(~away & ~block),
        np.flatnonzero(~away & block),
        np.flatnonzero(away),
    )


READERS = {"turntable": read_turntable, "drawn": read_drawn, "yale": read_yale}
