"""What a run says about itself, in plain words, for the report, the explorer and the terminal."""

from __future__ import annotations

import json
from typing import Any

from transop import __version__
from transop.errors import ArtifactError
from transop.identity import describe_identity
from transop.run import Run

# Which results are shown first, in which words; the rest stands in the table of phases.
HEADLINES: dict[str, tuple[str, str]] = {
    "test_mse": ("squared error per pixel", "of held-out reconstructions"),
    "living": ("operators in use", "the rest shrank to almost nothing"),
    "label_agreement": ("pairs share a label", "though labels were not used to pair"),
    "test_accuracy": ("classifier accuracy", "on held-out images"),
    "kept_encoded": ("moves keep identity", "with encoded scales"),
    "kept_fixed": ("moves keep identity", "with one fixed scale, moves of the same length"),
}
# What a phase measured; a measure that is not here is called by its name.
_WORDS = {
    "test_mse": "mean squared error of reconstructed test images",
    "living": "operators alive",
    "largest_real_part": "fastest growth rate of an operator",
    "latent_magnitude": "mean length of a latent point",
    "label_agreement": "share of training pairs with the same label",
    "latent_scale": "latent scale",
    "test_accuracy": "accuracy of the classifier on test images",
    "distilled_agreement": "agreement of the distilled classifier with its teacher",
    "identity": "identity is the opinion of",
    "n_communities": "groups of the neighbour graph",
    "label_purity": "share of images whose group is named after their label",
    "label_adjusted_rand": "agreement of groups with labels, corrected for chance",
    "kept_encoded": "moves with encoded scales that keep identity",
    "kept_fixed": "moves of the same length with one fixed scale that keep identity",
    "move_length": "mean length of a move, as a share of the point's",
    "coverage": "share of the data's spread that the moves cover",
    "kept_encoded_at_0.3": "kept at a length of 0.3, encoded scales",
    "kept_fixed_at_0.3": "kept at a length of 0.3, one fixed scale",
    "mean_scale": "mean encoded scale",
    "seconds": "time taken",
}
_SHARES = {"label_agreement", "test_accuracy", "kept_encoded", "kept_fixed"}


def headlines(run: Run) -> list[tuple[str, str, str]]:
    """Choose the numbers to show first, each with its name and a note; the last phase's count."""
    merged: dict[str, Any] = {}
    for facts in run.phases.values():
        merged |= facts
    kept = f"; identity: {describe_identity(run.description.get('identity'))}"
    return [
        (
            _shown(key, merged[key], run.description),
            name,
            note + (kept if key.startswith("kept_") else ""),
        )
        for key, (name, note) in HEADLINES.items()
        if isinstance(merged.get(key), int | float)
    ]


def about(run: Run) -> list[tuple[str, str]]:
    """Say what was trained on what, where and how long."""
    settings, model, environment = run.settings, run.description, run.environment
    network = model.get("autoencoder", {})
    packages, own = environment.get("packages", {}), settings.autoencoder
    kind = own.factory or f"{network.get('name', own.network)}, width {own.width}"
    rows = [
        ("data", _data(run, network.get("image_size"))),
        ("recipe", settings.recipe),
        ("latent dimensions", str(network.get("latent_dimension", own.latent_dimension))),
        ("network", kind),
    ]
    if (operators := model.get("operators")) is not None:
        rows += [
            ("operators", str(operators["n_operators"])),
            ("pairs", f"{settings.pairs.strategy}, {settings.pairs.n_neighbours} neighbours"),
            ("latent scale", f"{model['latent_scale']:.4g}"),
            ("sparsity weight", f"{model['sparsity_weight']:g}"),
            ("identity", describe_identity(model.get("identity"))),
        ]
    return [
        *rows,
        ("training time", duration(run.seconds)),
        ("seed", str(environment.get("seed"))),
        ("hardware", f"{environment.get('cores')} cores, {environment.get('processor')}"),
        (
            "versions",
            f"transop {packages.get('transop') or __version__}, torch {packages.get('torch')}",
        ),
        ("commit", str(environment.get("commit") or "unknown")),
    ]


def phase_results(run: Run) -> dict[str, list[tuple[str, str]]]:
    """List what each phase measured, in words; the time it took comes first."""
    return {
        phase: [
            (
                _WORDS.get(key, key.replace("_", " ")),
                duration(float(value)) if key == "seconds" else brief(value),
            )
            for key, value in facts.items()
            if isinstance(value, int | float) or (isinstance(value, str) and key != "seconds")
        ]
        for phase, facts in run.phases.items()
    }


def environment_rows(run: Run) -> list[tuple[str, str]]:
    """List versions, seed and hardware; a damaged file is named, not raised."""
    try:
        found = run.environment
    except ArtifactError as error:
        return [("environment", str(error))]
    rows = []
    for name, value in found.items():
        text = json.dumps(value) if isinstance(value, list) else str(value)
        if isinstance(value, dict):
            text = ", ".join(f"{key} {version}" for key, version in value.items() if version)
        rows.append((str(name).replace("_", " "), "none" if value is None else text))
    return rows


def duration(seconds: float) -> str:
    """Write a time as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def brief(value: Any) -> str:
    """Write a number with as many digits as matter."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _data(run: Run, size: int | None) -> str:
    if run.data is not None:
        return run.data.summary()
    return run.settings.data.source + (f", {size} x {size} pixels" if size else "")


def _shown(key: str, value: float, model: dict[str, Any]) -> str:
    if key in _SHARES:
        return f"{value:.1%}"
    if key == "living":
        return f"{value} of {model.get('operators', {}).get('n_operators', '?')}"
    return brief(float(value))
