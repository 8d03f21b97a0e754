"""Typed settings: one section per phase, recipes and overrides, settings of earlier versions."""

from transop.config.sections import (
    CROPS,
    PHASES,
    AutoencoderSettings,
    ClassifierSettings,
    ObjectiveSettings,
    PairSettings,
    RuntimeSettings,
    Section,
    check_crop,
)
from transop.config.settings import (
    Settings,
    as_override,
    load_settings,
    recipe_names,
    settings_from_tree,
)

__all__ = [
    "CROPS",
    "PHASES",
    "AutoencoderSettings",
    "ClassifierSettings",
    "ObjectiveSettings",
    "PairSettings",
    "RuntimeSettings",
    "Section",
    "Settings",
    "as_override",
    "check_crop",
    "load_settings",
    "recipe_names",
    "settings_from_tree",
]
