"""Settings of earlier versions: where they are now, so that old runs and recipes still open."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from transop.errors import SettingsError

# Settings of version 0.1 that moved.
RENAMED = {
    "autoencoder.edge_weight": "beyond_paper.edge_weight",
    "operators.sparsity_weight": "objective.sparsity_weight",
    "operators.operator_decay": "objective.operator_decay",
    "operators.real_part_penalty": "objective.real_part_penalty",
    "operators.real_part_tolerance": "objective.real_part_tolerance",
    "operators.origin": "beyond_paper.origin",
    "fine_tuning.anchor_weight": "beyond_paper.anchor_weight",
    "fine_tuning.arrival_weight": "beyond_paper.arrival_weight",
    "fine_tuning.beyond_weight": "beyond_paper.beyond_weight",
}

# Those that no longer exist, each with the one value that is still in force.
DROPPED: dict[str, Any] = {
    "operators.initialisation": "unit-norm",
    "operators.variance": 0.05,
    "operators.origin_distance": 1.0,
    "operators.solver": "gauss-newton",
    "operators.restarts": 1,
    "operators.plateau_patience": None,
    "fine_tuning.beyond_reach": 2.6,
    "fine_tuning.beyond_sparsity_weight": 0.01,
    "coefficient_encoder.kl_direction": "posterior-to-prior",
    "coefficient_encoder.target": "classifier",
    "classifier.weight_decay": 1e-4,
}

# Sections and values that only the reproduction's baselines still have.
_BASELINES = ("contractive", "beta_vae", "dense")

# What fine-tuning used where a recipe of version 0.1 did not say.
_FINE_TUNING_THEN = {
    "sparsity_weight": 0.05,
    "operator_decay": 1e-5,
    "real_part_penalty": 0.0,
    "real_part_tolerance": 0.0,
}


def upgrade(tree: dict[str, Any], sections: Container[str]) -> None:
    """Move the settings of a file written by version 0.1 to where they are now, in place."""
    if "method" not in sections and tree.pop("method", "mae") != "mae":
        raise SettingsError(
            "these are the settings of a baseline; open and train it with: transop baseline"
        )
    for section in _BASELINES:
        if section not in sections:
            tree.pop(section, None)
    for old in (*RENAMED, *DROPPED):
        section, _, key = old.partition(".")
        branch = tree.get(section)
        if not isinstance(branch, dict) or key not in branch:
            continue
        value = branch.pop(key)
        if old in RENAMED:
            new_section, _, new_key = RENAMED[old].partition(".")
            _set_default(tree, new_section, new_key, value)
            if new_section == "objective":  # fine-tuning had defaults of its own
                _set_default(tree, "fine_tuning", new_key, _FINE_TUNING_THEN[new_key])
        elif value != DROPPED[old]:
            raise SettingsError(
                f"'{old}' = {value!r} is a setting of transop 0.1 that no longer exists; remove "
                f"that line to go on with {DROPPED[old]!r}, or open the run with transop 0.1"
            )


def _set_default(tree: dict[str, Any], section: str, key: str, value: Any) -> None:
    branch = tree.setdefault(section, {})
    if isinstance(branch, dict):  # anything else is refused when the settings are validated
        branch.setdefault(key, value)
