"""The pictures of a run, as data the page can carry inside itself."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transop.artifacts import RunFolder, read_json
from transop.plotting import kept_curves, render_figure
from transop_app.report.curves import CURVES_ABOUT, collect_curves, training_curves
from transop_app.report.saved import About

CURVES = "training-curves"
KEPT_ABOUT = About(
    "Kept identity",
    "How often random moves keep identity, by their mean length, and how much of the data's spread "
    "they cover. The dashed line is one fixed scale that makes moves of the same length. Bands are "
    "95 % intervals over held-out images.",
)


@dataclass(frozen=True)
class Picture:
    """A picture with its words."""

    name: str  # of the file it was read from
    about: About
    source: str  # a ``data:`` address that holds the whole picture


def collect_pictures(folder: Path) -> list[Picture]:
    """Read every picture of a folder, those without a place in a publication first."""
    pictures = [
        Picture(path.stem, _read_about(path), _inline(path.read_bytes()))
        for path in sorted(folder.glob("*.png"))
        if path.stem != CURVES  # drawn anew, from the newest metrics
    ]
    return sorted(pictures, key=lambda picture: _position(picture.about.place))


def draw_curves(folder: RunFolder) -> Picture | None:
    """Draw the curves of a run from its metrics, if it has any."""
    curves, labels = collect_curves(folder.read_metrics())
    if not curves:
        return None
    drawn = render_figure(training_curves(curves, labels), "png")
    return Picture(CURVES, CURVES_ABOUT, _inline(drawn))


def _read_about(picture: Path) -> About:
    """Read the words beside a picture; one without words is called by its file's name."""
    beside = picture.with_suffix(".json")
    stored: Any = read_json(beside).get("about", {}) if beside.exists() else {}
    title = picture.stem.replace("-", " ").capitalize()
    return About(stored.get("title", title), stored.get("caption", ""), stored.get("place", ""))


def _position(place: str) -> int:
    """Sort places by the first number in them: figure 2 stands before figure 10."""
    number = re.search(r"\d+", place)
    return int(number[0]) if number else -1


def kept_identity(folder: RunFolder) -> Picture | None:
    """Draw kept identity against the length of moves, if the run has measured it."""
    for record in reversed(list(folder.read_metrics())):
        if "curves" in record and "identity" in record:
            drawn = render_figure(kept_curves(record["curves"], record["identity"]), "png")
            return Picture("kept-identity", KEPT_ABOUT, _inline(drawn))
    return None


def _inline(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
