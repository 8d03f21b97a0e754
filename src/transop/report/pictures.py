"""The pictures of a run, as data the page can carry inside itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from transop.artifacts import RunFolder
from transop.plotting import kept_curves, render_figure
from transop_paper.figures import FIGURES
from transop_paper.figures.training_curves import curves_of, draw


@dataclass(frozen=True)
class Picture:
    """A picture with its words.

    Attributes:
        name: of the file it was read from.
        title: a few words.
        caption: what it shows and how to read it.
        source: a ``data:`` address that holds the whole picture.
        paper: where the paper shows it, or an empty string.
    """

    name: str
    title: str
    caption: str
    source: str
    paper: str = ""


# Pictures that the demo draws; they have no counterpart in the paper.
SHOWCASE = {
    "reconstructions": (
        "Reconstructions",
        "Held-out images above, and below what the autoencoder makes of them. Whatever is lost "
        "here no operator can bring back.",
    ),
    "operators": (
        "What each operator does",
        "One image moved by single operators, backwards to the left and forwards to the right of "
        "the outlined reconstruction.",
    ),
    "paths": (
        "Paths between images",
        "From one image towards another of its class, and beyond it.",
    ),
    "samples": (
        "Samples",
        "Random moves of the outlined image, as far as its identity allows.",
    ),
}


def collect_pictures(folder: Path) -> list[Picture]:
    """Read every known picture of a folder, in the order of the paper, the demo's first."""
    known = {name: (*words, "") for name, words in SHOWCASE.items()}
    known |= {name: (f.title, f.caption, f.paper) for name, f in FIGURES.items()}
    pictures = []
    for name, (title, caption, paper) in known.items():
        path = folder / f"{name}.png"
        if path.exists() and name != "training-curves":  # drawn anew, from the newest metrics
            pictures.append(Picture(name, title, caption, _inline(path.read_bytes()), paper))
    return pictures


def training_curves(folder: RunFolder) -> Picture | None:
    """Draw the curves of a run from its metrics, if it has any."""
    numbers = curves_of(folder.read_metrics())
    if not numbers.arrays:
        return None
    figure: Figure = draw(numbers)
    words = FIGURES["training-curves"]
    return Picture(
        "training-curves", words.title, words.caption, _inline(render_figure(figure, "png"))
    )


def kept_identity(folder: RunFolder) -> Picture | None:
    """Draw kept identity against the length of moves, if the run has measured it."""
    for record in reversed(list(folder.read_metrics())):
        if "curves" in record and "identity" in record:
            figure: Figure = kept_curves(record["curves"], record["identity"])
            return Picture(
                "kept-identity",
                "Kept identity",
                "How often random moves keep identity, by their mean length, and how much of the "
                "data's spread they cover. The dashed line is one fixed scale that makes moves of "
                "the same length. Bands are 95 % intervals over held-out images.",
                _inline(render_figure(figure, "png")),
            )
    return None


def _inline(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
