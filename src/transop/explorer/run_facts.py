"""What a run's folder says about how it went."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from transop.artifacts import read_json
from transop.errors import ArtifactError
from transop.evaluation.wording import in_words
from transop.explorer.opened import OpenRun


@dataclass(frozen=True)
class RunFacts:
    """A run's story, ready to be shown; parts that are not in the folder are empty.

    Attributes:
        curves: for every phase its loss: steps and values.
        results: for every finished phase names in plain words and values.
        findings: what the diagnostics noticed, in words.
        settings: the text of ``config.toml``.
        environment: versions, seed and hardware.
    """

    curves: dict[str, tuple[list[float], list[float]]]
    results: dict[str, list[tuple[str, str]]]
    findings: list[str]
    settings: str
    environment: list[tuple[str, str]]


def read_facts(run: OpenRun) -> RunFacts:
    """Read a run's metrics, results, settings and environment."""
    folder = run.folder
    records = [r for r in folder.read_metrics() if isinstance(r, dict)]
    return RunFacts(
        curves=_curves(records),
        results=_results(folder.finished_phases()),
        findings=[
            f"{str(r.get('phase')).replace('_', ' ')}: {r['finding']}"
            for r in records
            if "finding" in r
        ],
        settings=folder.config_file.read_text("utf-8") if folder.config_file.exists() else "",
        environment=_environment(run),
    )


def _curves(records: list[dict[str, Any]]) -> dict[str, tuple[list[float], list[float]]]:
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for record in records:
        loss, step = record.get("loss"), record.get("step", -1)
        if isinstance(loss, int | float) and math.isfinite(loss) and step >= 0:
            steps, losses = curves.setdefault(str(record.get("phase")), ([], []))
            steps.append(float(step))
            losses.append(float(loss))
    return {phase: curve for phase, curve in curves.items() if len(curve[0]) > 1}


def _results(phases: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Put every finished phase's numbers into words."""
    return {
        phase: [(in_words(name), _value(name, v)) for name, v in facts.items()]
        for phase, facts in phases.items()
        if isinstance(facts, dict)
    }


def _environment(run: OpenRun) -> list[tuple[str, str]]:
    file = run.folder.environment_file
    if not file.exists():
        return []
    try:
        found = read_json(file)
    except ArtifactError as error:
        return [("environment", str(error))]
    rows = []
    for name, value in found.items() if isinstance(found, dict) else ():
        text = json.dumps(value) if isinstance(value, list) else str(value)
        if isinstance(value, dict):
            text = ", ".join(f"{key} {version}" for key, version in value.items() if version)
        rows.append((str(name).replace("_", " "), "none" if value is None else text))
    return rows


def _value(name: str, value: Any) -> str:
    if name == "seconds" and isinstance(value, int | float):
        minutes, seconds = divmod(round(value), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
