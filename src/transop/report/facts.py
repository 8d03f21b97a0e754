"""What a run folder says about itself, in plain words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transop import __version__
from transop.artifacts import RunFolder, read_json
from transop.config import PHASES, Settings, load_settings
from transop.errors import ArtifactError
from transop.evaluation.wording import in_words
from transop.identity import describe_identity

METHODS = {
    "mae": "manifold autoencoder with transport operators",
    "ae": "plain autoencoder, straight paths",
    "cae": "contractive autoencoder",
    "beta-vae": "beta-VAE",
    "dense": "transport operators with dense coefficients",
}

# How phases and results are called on the page; what is not here is not shown as a headline.
HEADLINES: dict[str, tuple[str, str]] = {
    "test_mse": ("squared error per pixel", "of held-out reconstructions"),
    "living": ("operators in use", "the rest shrank to almost nothing"),
    "label_agreement": ("pairs share a label", "though labels were not used to pair"),
    "test_accuracy": ("classifier accuracy", "on held-out images"),
    "kept_encoded": ("moves keep identity", "with encoded scales"),
    "kept_fixed": ("moves keep identity", "with one fixed scale, moves of the same length"),
}
_SHARES = {"label_agreement", "test_accuracy", "kept_encoded", "kept_fixed"}


@dataclass(frozen=True)
class Headline:
    """One number a reader should see first."""

    value: str
    name: str
    note: str


@dataclass(frozen=True)
class RunFacts:
    """Everything the page says in words and tables.

    Attributes:
        settings: the resolved settings.
        model: the model's description, as stored beside its weights.
        environment: versions, seed and hardware.
        phases: what each finished phase measured.
        findings: what the diagnostics noticed, with the phase.
    """

    settings: Settings
    model: dict[str, Any]
    environment: dict[str, Any]
    phases: dict[str, dict[str, Any]]
    findings: list[tuple[str, str]]

    @property
    def method(self) -> str:
        """What was trained, in words."""
        return METHODS.get(self.settings.method, self.settings.method)

    @property
    def seconds(self) -> float:
        """How long all phases took."""
        return float(sum(facts.get("seconds", 0.0) for facts in self.phases.values()))

    def missing_phases(self) -> list[str]:
        """Name the phases of our method that this run has not been through."""
        if self.settings.method != "mae":
            return []
        return [phase for phase in PHASES if phase not in self.phases]

    def headlines(self) -> list[Headline]:
        """Choose the numbers to show first; of repeated measures the last phase's counts."""
        merged: dict[str, Any] = {}
        for facts in self.phases.values():
            merged |= facts
        return [
            Headline(_shown(key, merged[key], self.model), name, self._note(key, note))
            for key, (name, note) in HEADLINES.items()
            if isinstance(merged.get(key), int | float)
        ]

    def _note(self, key: str, note: str) -> str:
        """Say beside every kept share whose opinion was kept."""
        if not key.startswith("kept_"):
            return note
        return f"{note}; identity: {describe_identity(self.model.get('identity'))}"

    def about(self) -> list[tuple[str, str]]:
        """Say what was trained on what, where and how long."""
        settings, model, environment = self.settings, self.model, self.environment
        network = model.get("autoencoder") or model.get("network") or {}
        size = network.get("image_size")
        packages = environment.get("packages", {})
        rows = [
            ("method", self.method),
            ("data", f"{settings.data.source}" + (f", {size} x {size} pixels" if size else "")),
            ("recipe", settings.recipe),
            ("latent dimensions", str(network.get("latent_dimension", "unknown"))),
            ("network", f"{network.get('name')}, width {network.get('width')}"),
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
            ("training time", duration(self.seconds)),
            ("seed", str(environment.get("seed"))),
            ("hardware", f"{environment.get('cores')} cores, {environment.get('processor')}"),
            (
                "versions",
                f"transop {packages.get('transop') or __version__}, torch {packages.get('torch')}",
            ),
            ("commit", str(environment.get("commit") or "unknown")),
        ]

    def phase_rows(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """List each phase with its time and what it measured, in words."""
        rows = []
        for name, facts in self.phases.items():
            numbers = [
                (in_words(key), brief(value))
                for key, value in facts.items()
                if key != "seconds" and isinstance(value, int | float | str)
            ]
            took = duration(facts.get("seconds", 0.0))
            rows.append((name.replace("_", " "), took, numbers))
        return rows


def read_facts(folder: RunFolder) -> RunFacts:
    """Read what the files of a run say; a folder that is no run is named in the error."""
    if not folder.config_file.exists():
        raise ArtifactError(
            f"'{folder.path}' is not a run folder; train one with: transop train RECIPE"
        )
    model_file, environment = folder.path / "config.json", folder.environment_file
    return RunFacts(
        settings=load_settings(folder.config_file),
        model=read_json(model_file) if model_file.exists() else {},
        environment=read_json(environment) if environment.exists() else {},
        phases=folder.finished_phases(),
        findings=[
            (str(record.get("phase", "")).replace("_", " "), str(record["finding"]))
            for record in folder.read_metrics()
            if "finding" in record
        ],
    )


def duration(seconds: float) -> str:
    """Write a time as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def brief(value: Any) -> str:
    """Write a number with as many digits as matter."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(key: str, value: float, model: dict[str, Any]) -> str:
    if key in _SHARES:
        return f"{value:.1%}"
    if key == "living":
        return f"{value} of {model.get('operators', {}).get('n_operators', '?')}"
    return brief(float(value))
