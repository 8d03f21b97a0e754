"""Read results out of the folder in which steps work."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transop.artifacts import read_json
from transop.run import Run

Collect = Callable[[Path], Mapping[str, Any]]  # reads one result


def read_runs(name: str, seeds: Sequence[int] = range(10)) -> Collect:
    """Read what the runs NAME-0, NAME-1, ... say about themselves."""

    def collect(work: Path) -> dict[str, Any]:
        folders = [work / f"{name}-{seed}" for seed in seeds]
        runs = [Run.open(path) for path in folders if path.exists()]
        facts = [
            {
                "seed": run.settings.runtime.seed,
                "recipe": run.settings.recipe,
                "commit": run.environment.get("commit"),
                "torch_threads": run.environment.get("torch_threads"),
                "phases": run.phases,
            }
            for run in runs
        ]
        return {"runs": facts}

    return collect


def read_file(place: str) -> Collect:
    """Read one JSON file; a list of rows becomes the value of "rows"."""

    def collect(work: Path) -> Mapping[str, Any]:
        found = read_json(work / place)
        return found if isinstance(found, dict) else {"rows": found}

    return collect


def read_files(pattern: str) -> Collect:
    """Read several JSON files, one for each run."""
    return lambda work: {"runs": [read_json(file) for file in sorted(work.glob(pattern))]}


def read_figures(run: str) -> Collect:
    """Read the plain numbers of every figure of a run."""

    def collect(work: Path) -> dict[str, Any]:
        files = sorted((work / run / "figures").glob("*.json"))
        return {file.stem: read_json(file).get("facts") for file in files}

    return collect


def read_figure(run: str, name: str, arrays: Sequence[str]) -> Collect:
    """Read one figure of a run: its plain numbers and some of its arrays."""

    def collect(work: Path) -> dict[str, Any]:
        opened, file = Run.open(work / run), work / run / "figures" / name
        with np.load(file.with_suffix(".npz"), allow_pickle=False) as stored:
            kept = {key: np.round(stored[key].astype(float), 4).tolist() for key in arrays}
        return {
            "recipe": opened.settings.recipe,
            "seed": opened.settings.runtime.seed,
            "commit": opened.environment.get("commit"),
            "facts": read_json(file.with_suffix(".json"))["facts"],
            "arrays": kept,
        }

    return collect


def read_figure_of_runs(
    name: str, seeds: Sequence[int], figure: str, arrays: Sequence[str]
) -> Collect:
    """Read one figure of the runs NAME-0, NAME-1, ..."""

    def collect(work: Path) -> dict[str, Any]:
        return {"runs": [read_figure(f"{name}-{seed}", figure, arrays)(work) for seed in seeds]}

    return collect
