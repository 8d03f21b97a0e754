"""All settings together: read from TOML recipes and ``section.key=value``.

Resolution order: the defaults of the sections, the recipe, then ``--set`` overrides. Whatever is
unknown, of the wrong type or impossible is refused in one line before anything is computed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import ValidationError, model_validator
from typing_extensions import TypeVar

from transop.config.retired import DROPPED, RENAMED, upgrade
from transop.config.sections import (
    AutoencoderSettings,
    BeyondPaperSettings,
    ClassifierSettings,
    CoefficientEncoderSettings,
    DataSettings,
    FineTuningSettings,
    IdentitySettings,
    ObjectiveSettings,
    OperatorSettings,
    PairSettings,
    RuntimeSettings,
    Section,
)
from transop.errors import SettingsError, did_you_mean, show
from transop.files import read_regular, reason_of

_LARGEST_RECIPE = 2**20  # bytes


class Settings(Section):
    """Everything a run needs to know."""

    recipe: str = "custom"
    data: DataSettings = DataSettings()
    autoencoder: AutoencoderSettings = AutoencoderSettings()
    pairs: PairSettings = PairSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    operators: OperatorSettings = OperatorSettings()
    fine_tuning: FineTuningSettings = FineTuningSettings()
    beyond_paper: BeyondPaperSettings = BeyondPaperSettings()
    identity: IdentitySettings = IdentitySettings()
    classifier: ClassifierSettings = ClassifierSettings()
    coefficient_encoder: CoefficientEncoderSettings = CoefficientEncoderSettings()
    runtime: RuntimeSettings = RuntimeSettings()

    @model_validator(mode="after")
    def _blocks_divide_latents(self) -> Settings:
        dimension, n_blocks = self.autoencoder.latent_dimension, self.operators.n_blocks
        if dimension % n_blocks:
            raise ValueError(
                f"operators.n_blocks = {n_blocks} does not divide "
                f"autoencoder.latent_dimension = {dimension}"
            )
        return self

    @property
    def fine_tuning_objective(self) -> ObjectiveSettings:
        """The weights in fine-tuning: its own where given, else those of ``[objective]``."""
        own = self.fine_tuning.model_dump(
            include=set(ObjectiveSettings.model_fields), exclude_none=True
        )
        return self.objective.model_copy(update=own)

    def to_toml(self) -> str:
        """Write every setting as TOML; what is None is left out, as TOML has no null."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def updated(self, overrides: Iterable[str]) -> Self:
        """Apply ``section.key=value`` overrides on top of these settings."""
        tree = self.model_dump(mode="json", exclude_none=True)
        for override in overrides:
            _apply_override(tree, override)
        return settings_from_tree(tree, type(self))


_Kind = TypeVar("_Kind", bound=Settings, default=Settings)


def settings_from_tree(tree: Mapping[str, Any], kind: type[_Kind]) -> _Kind:
    """Validate a nested mapping, as TOML gives it; the error is one line about one key."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(_one_line(error, kind)) from None


def recipe_names() -> list[str]:
    """List the recipes that ship with the package."""
    folder = resources.files("transop").joinpath("recipes")
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def load_settings(
    recipe: str | Path,
    overrides: Iterable[str] = (),
    kind: type[_Kind] = Settings,  # type: ignore[assignment]
    changes: Mapping[str, Any] | None = None,
) -> _Kind:
    """Read a shipped recipe by name or a TOML file by path, then apply overrides.

    Args:
        recipe: ``"demo"``, ``"mnist"``, ... or the path of a ``.toml`` file.
        overrides: items such as ``"autoencoder.epochs=2"``.
        kind: the class of the settings; another package may add sections of its own.
        changes: the same by key and value, such as ``{"autoencoder.epochs": 2}``.
    """
    if not isinstance(changes, Mapping | None):
        raise SettingsError(
            f"settings = {show(changes)}; pass a mapping such as {{'autoencoder.epochs': 2}}"
        )
    if not isinstance(overrides, Iterable) or isinstance(overrides, str | bytes):
        raise SettingsError(
            f"overrides = {show(overrides)}; pass a list such as ['autoencoder.epochs=2']"
        )
    text, origin = _recipe_text(recipe)
    tree = _parse_toml(text, origin)
    tree.setdefault("recipe", Path(recipe).stem)
    try:
        upgrade(tree, kind.model_fields)
        for key, value in (changes or {}).items():
            _set_key(tree, str(key), value, f"setting {key!r}")
        for override in overrides:
            _apply_override(tree, override)
        return settings_from_tree(tree, kind)
    except SettingsError as error:
        raise SettingsError(f"{origin}: {error}") from None


def _recipe_text(recipe: str | Path) -> tuple[str, str]:
    if not isinstance(recipe, str | Path):
        raise SettingsError(f"recipe = {show(recipe)} is neither a name nor a path")
    path = Path(recipe)
    names = recipe_names()
    if str(recipe) in names:
        resource = resources.files("transop").joinpath("recipes", f"{recipe}.toml")
        return resource.read_text("utf-8"), f"recipe '{recipe}'"
    if path.suffix == ".toml":
        try:
            return read_regular(path, most_bytes=_LARGEST_RECIPE).decode("utf-8"), str(path)
        except FileNotFoundError:
            raise SettingsError(f"recipe file '{path}' does not exist") from None
        except (OSError, ValueError) as error:  # no text, or a null byte in its name
            reason = reason_of(error) if isinstance(error, OSError) else error
            raise SettingsError(f"recipe file '{path}' cannot be read: {reason}") from None
    raise SettingsError(
        f"unknown recipe '{recipe}'{did_you_mean(str(recipe), names)}; shipped recipes are "
        f"{', '.join(names)}, or give the path of a .toml file"
    )


def as_override(key: str, value: str | float | bool) -> str:
    """Write a setting as ``section.key=value`` so that any value is read back as it was."""
    return f"{key}={tomli_w.dumps({'value': value}).partition('=')[2].strip()}"


def _apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one ``section.key=value`` in a nested mapping, reading the value as TOML would."""
    if not isinstance(override, str):
        raise SettingsError(f"{show(override)} is not of the form 'section.key=value'")
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise SettingsError(f"--set {show(override)} is not of the form section.key=value")
    _set_key(tree, key.strip(), _toml_value(value.strip()), f"--set {show(override)}")


def _set_key(tree: dict[str, Any], key: str, value: Any, origin: str) -> None:
    """Set one dotted key in a nested mapping."""
    *sections, name = key.split(".")
    for part in sections:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"{origin}: '{part}' is a value, not a section")
    tree[name] = value


def _toml_value(text: str) -> Any:
    """Read a value as TOML, or as a bare string: ``--set data.source=mnist`` needs no quotes."""
    try:
        parsed = _parse_toml(f"value = {text}", f"--set value {show(text)}")
    except InvalidToml:
        return text
    return parsed["value"] if len(parsed) == 1 else text


class InvalidToml(SettingsError):
    """A text is not TOML at all."""


def _parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Read TOML; what Python itself refuses to read is a mistake in the text too."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidToml(f"{origin} is not valid TOML: {error}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise SettingsError(f"{origin} holds a value that cannot be read: {error}") from None
    except RecursionError:
        raise SettingsError(f"{origin} is nested too deeply to be read") from None


def _one_line(error: ValidationError, kind: type[Settings]) -> str:
    """Say the first thing wrong: key, value, and what would be valid."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"] if not str(part).startswith("literal[")]
    key = ".".join(part for part in location if part not in ("float", "int")) or "settings"
    if first["type"] == "extra_forbidden":
        if key in RENAMED:
            return f"unknown setting '{key}'; it is now '{RENAMED[key]}'"
        if key in DROPPED:
            return f"unknown setting '{key}'; it no longer exists, the value is {DROPPED[key]!r}"
        # Sections lie one level deep.
        model: Any = kind.model_fields[location[0]].annotation if len(location) > 1 else kind
        valid = list(model.model_fields)
        hint = did_you_mean(location[-1], valid)
        return f"unknown setting '{key}'{hint}; valid keys here: {', '.join(valid)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message
    hint = ""
    expected = first.get("ctx", {}).get("expected")
    if first["type"] == "literal_error" and isinstance(expected, str):
        choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ",").split(",")]
        hint = did_you_mean(str(first["input"]), choices)
    more = len(error.errors()) - 1
    others = f" (and {more} more)" if more and first["type"] != "literal_error" else ""
    return f"'{key}' = {show(first['input'])}: {message}{hint}{others}"
