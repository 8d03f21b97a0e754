"""What every figure of the paper consists of: numbers first, then a picture of what is on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transop.artifacts import read_json, write_atomically, write_json
from transop.colours import COLOURS
from transop.errors import ArtifactError
from transop.plotting import look
from transop_app.report.saved import About, save_figure
from transop_paper.figures.paper_run import PaperRun

_SMALL = 400  # arrays up to so many entries stand in the JSON file too, for readers and scripts


@dataclass(frozen=True)
class Numbers:
    """The result of a figure's computation."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # stored as NPZ
    # plain values, stored as JSON: labels, counts, headline results
    facts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        """Give an array by name."""
        return self.arrays[name]

    def save(self, stem: Path, about: About | None = None) -> list[Path]:
        """Write ``stem.npz`` and ``stem.json``, each in one step.

        The report reads ``about``, the words of the picture, from the JSON file.
        """
        buffer = BytesIO()
        arrays: dict[str, Any] = self.arrays
        np.savez_compressed(buffer, **arrays)
        paths = [stem.with_name(stem.name + suffix) for suffix in (".npz", ".json")]
        write_atomically(paths[0], buffer.getvalue())
        shown = {
            k: v.tolist()
            for k, v in self.arrays.items()
            if v.size <= _SMALL and v.dtype.kind in "fiub"
        }
        json.dumps(self.facts)  # a fact that is not plain is our mistake: say so before writing
        words = {} if about is None else {"about": asdict(about)}
        write_json(paths[1], {**words, "facts": self.facts, "arrays": shown})
        return paths

    @classmethod
    def load(cls, stem: Path) -> Numbers:
        """Read what ``save`` wrote."""
        path = stem.with_name(stem.name + ".npz")
        facts = read_json(stem.with_name(stem.name + ".json"))["facts"]
        try:
            with np.load(path, allow_pickle=False) as stored:
                return cls(dict(stored), facts)
        except (OSError, ValueError, EOFError) as error:
            raise ArtifactError(f"'{path}' is not a readable NPZ file: {error}") from None


@dataclass(frozen=True)
class PaperFigure:
    """A figure: how to compute its numbers and how to draw them."""

    words: str | None  # its file's docstring: a title, then what it shows and how to read it
    paper: str  # where the paper shows it, e.g. "Figure 4"
    compute: Callable[[PaperRun], Numbers]  # numbers from a trained run
    paint: Callable[[Numbers], Figure]  # a picture from the numbers alone
    needs: tuple[str, ...] = ("operators",)  # training phases the run must have been through
    columns: tuple[str, ...] = ()  # what its images must come with: labels, attributes or factors

    def draw(self, numbers: Numbers) -> Figure:
        """Draw the picture in the look that all figures share."""
        with look():
            return self.paint(numbers)

    @property
    def about(self) -> About:
        """The words that stand beside the picture."""
        title, _, caption = (self.words or "").strip().partition("\n\n")
        place = f"{self.paper} of the paper" if any(map(str.isdigit, self.paper)) else ""
        return About(title.removesuffix("."), " ".join(caption.split()), place)


def axes_in_inches(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Place axes by hand, so that what stands above and below lines up."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def outline_cell(axes: Axes, row: int, column: int) -> None:
    """Draw a frame around one cell of a heat map."""
    frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, clip_on=False)
    frame.set(edgecolor=COLOURS[1], linewidth=2.0, zorder=5)  # above the white grid
    axes.add_patch(frame)


def name_ends(
    axes: Axes, ends: Mapping[str, float], colours: Sequence[str], *, apart: float
) -> None:
    """Write the names of lines to the right of the axes, at the height where each line ends.

    Names that would touch are moved, so that none is closer to the next than ``apart``.
    """
    heights = spread_apart(np.array(list(ends.values())), apart)
    for name, height, colour in zip(ends, heights, colours, strict=False):
        axes.annotate(
            name,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            color=colour,
            fontsize=6.8,
            va="center",
            annotation_clip=False,
        )


def spread_apart(wanted: Float[np.ndarray, " n"], apart: float) -> Float[np.ndarray, " n"]:
    """Move positions as little as needed so that no two are closer than ``apart``."""
    order = np.argsort(wanted)
    placed = wanted[order].astype(float)
    for _ in range(100):
        missing = apart - np.diff(placed)
        if not (missing > 1e-9).any():
            break
        push = np.where(missing > 0, missing / 2, 0.0)
        placed[:-1] -= push
        placed[1:] += push
    result = np.empty_like(placed)
    result[order] = placed
    return result


def make_figure(name: str, figure: PaperFigure, run: PaperRun, folder: Path) -> list[Path]:
    """Compute a figure's numbers, write them, and draw what was written."""
    written = figure.compute(run).save(folder / name, figure.about)
    return written + redraw_figure(name, figure, folder)


def redraw_figure(name: str, figure: PaperFigure, folder: Path) -> list[Path]:
    """Draw a figure again from the numbers on disk."""
    stem = folder / name
    return save_figure(figure.draw(Numbers.load(stem)), stem)


def unmet_needs(figure: PaperFigure, run: PaperRun) -> list[str]:
    """Say what a figure needs that the run or its images do not have, one clause each."""
    phases = [phase for phase in figure.needs if phase not in run.model.phases]
    columns = [name for name in figure.columns if getattr(run.dataset, name) is None]
    return [
        *(f"images with {name}, which '{run.dataset.meta.name}' has not" for name in columns),
        *(
            f"the phase '{phase}', which this run has not been through; train it with: transop "
            "train RECIPE --resume"
            for phase in phases
        ),
    ]
