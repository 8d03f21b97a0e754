"""A figure on disk: as PNG and SVG, beside the numbers it shows and the words about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from transop.artifacts import write_atomically
from transop.plotting import render_figure


def write_figure(figure: Figure, file: Path) -> None:
    """Write a figure to one file, as SVG if its name says so and as PNG otherwise."""
    kind: Literal["png", "svg"] = "svg" if file.suffix.lower() == ".svg" else "png"
    write_atomically(file, render_figure(figure, kind))


@dataclass(frozen=True)
class About:
    """The words of a picture, kept in the JSON file beside it; the report shows them."""

    title: str  # a few words
    caption: str  # what the picture shows and how to read it
    place: str = ""  # where a publication shows it, e.g. "Figure 4 of the paper"


def save_figure(
    figure: Figure,
    stem: Path,
    numbers: Mapping[str, np.ndarray] | None = None,
    about: About | None = None,
) -> list[Path]:
    """Write a figure as PNG and SVG beside the numbers and words that go with it, atomically.

    ``stem`` is the path without suffix; given arrays become an NPZ file, words a JSON file.
    """
    contents = {".png": render_figure(figure, "png"), ".svg": render_figure(figure, "svg")}
    if numbers is not None:
        buffer = BytesIO()
        np.savez_compressed(buffer, **dict[str, Any](numbers))
        contents[".npz"] = buffer.getvalue()
    if about is not None:
        contents[".json"] = json.dumps({"about": asdict(about)}, indent=2).encode()
    paths = [stem.with_name(stem.name + suffix) for suffix in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_atomically(path, content)
    return paths
