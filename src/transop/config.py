"""Typed settings: one section per phase, read from TOML recipes and ``section.key=value``.

Resolution order: the defaults below, the recipe, then ``--set`` overrides. Whatever is unknown,
of the wrong type or impossible is refused in one line before anything is computed.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, overload

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from transop.errors import SettingsError, show
from transop.files import read_regular, reason_of
from transop.retired import DROPPED, RENAMED, upgrade

PHASES = ("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder")
# Named parts of an image: left, top, right, bottom as shares of width and height.
CROPS = {
    # The central square of CelebA's 178 x 218 pictures, at any scale and even when they were
    # squashed to a square: the box is stretched back.
    "celeba": (0.0, 20 / 218, 1.0, 198 / 218),
}
_LARGEST_RECIPE = 2**20  # bytes


class Section(BaseModel):
    """A group of settings that refuses keys it does not know."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


_LARGEST_CROP = 100_000  # pixels


def check_crop(crop: Any) -> None:
    """Refuse a crop that is neither a side in pixels, nor a known name, nor a box of shares."""
    whole = isinstance(crop, int) and not isinstance(crop, bool)
    if crop is None or (whole and 0 < crop <= _LARGEST_CROP):
        return
    if isinstance(crop, str) and crop in CROPS:
        return
    if isinstance(crop, list | tuple) and len(crop) == 4:
        numbers = all(isinstance(x, int | float) and 0 <= x <= 1 for x in crop)
        if numbers and crop[0] < crop[2] and crop[1] < crop[3]:
            return
    raise ValueError(
        f"crop = {show(crop)} is impossible; use the side of the central square in pixels, one of "
        f"{', '.join(map(repr, CROPS))}, or [left, top, right, bottom] as shares from 0 to 1"
    )


class DataSettings(Section):
    """Which images to learn from."""

    source: str = Field("digits", description="a data set's name, a folder, a zip or an .npy/.npz")
    image_size: int | None = Field(None, ge=8, le=512)
    channels: Literal[1, 3] | None = None
    fit: Literal["crop", "pad"] = Field(
        "crop", description="images that are not square: keep the central square, or pad with black"
    )
    crop: int | str | tuple[float, float, float, float] | None = Field(
        None,
        description="the part of every image to keep: the side of the central square in pixels, "
        "'celeba', or [left, top, right, bottom] as shares from 0 to 1",
    )
    split: Literal["paper", "official", "random"] | None = Field(
        None, description="'random' for any source; CelebA has 'paper' and 'official'"
    )
    limit: int | None = Field(None, ge=2, description="use only the first so many training images")

    @field_validator("crop", mode="before")
    @classmethod
    def _crop_is_possible(cls, value: Any) -> Any:
        check_crop(value)
        return value


class AutoencoderSettings(Section):
    """The network, and the phase that trains it on reconstruction alone."""

    network: Literal["auto", "mnist", "celeba", "conv32", "conv", "deep"] = "auto"
    latent_dimension: int = Field(10, ge=1, le=1024)
    width: int = Field(32, ge=1, le=1024, description="channels of the convolutions")
    epochs: float = Field(20, ge=0)
    batch_size: int = Field(128, ge=2)
    learning_rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "one-cycle", "cosine"] = "one-cycle"
    weights: str | None = Field(
        None,
        description="a run whose trained autoencoder is taken over instead of training one; with "
        "a factory, the safetensors file of its modules",
    )
    factory: str | None = Field(
        None,
        description="module:function that returns your own encoder and decoder (or None); "
        "latent_dimension is then the number of principal directions that operators act on",
    )


class PairSettings(Section):
    """How two images become a pair the operators should connect."""

    strategy: Literal[
        "perceptual", "pixel", "latent", "same-class", "perceptual-in-class", "random", "given"
    ] = "perceptual"
    n_neighbours: int = Field(5, ge=1)
    backbone: Literal["auto", "efficientnet-lite0", "resnet18"] = "auto"
    weights: str | None = Field(None, description="a file of backbone weights, if not the default")
    input_size: int | None = Field(
        None,
        ge=32,
        description="side in pixels to which images are brought for the backbone; "
        "left out, by the images' size",
    )
    given: str | None = Field(None, description="a file of index pairs for strategy 'given'")


class ObjectiveSettings(Section):
    """The weights of [OBJECTIVE], with which operators are learned and coefficients inferred."""

    sparsity_weight: float = Field(0.05, ge=0, description="zeta")
    operator_decay: float = Field(1e-4, ge=0, description="gamma")
    real_part_penalty: float = Field(0.0, ge=0, description="weight of [REALPART]")
    real_part_tolerance: float = Field(
        0.0, ge=0, description="eigenvalues' real parts up to this size are free"
    )


class OperatorSettings(Section):
    """The dictionary of operators, and the phase that learns it with the network fixed."""

    objective: Literal["settings", "data"] = Field(
        "settings", description="use the weights of [objective], or let the pairs choose all four"
    )
    n_operators: int = Field(16, ge=1, le=1024)
    n_blocks: int = Field(1, ge=1)
    latent_scale: float | Literal["auto"] = "auto"
    learning_rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    epochs: float = Field(15, ge=0)
    batch_size: int = Field(250, ge=1)

    @field_validator("n_operators", mode="before")
    @classmethod
    def _some_operators(cls, value: Any) -> Any:
        if value == 0:
            raise ValueError(
                "operators.n_operators = 0 leaves no transformation to learn; use at least 1, or "
                "leave the phase out with operators.epochs = 0"
            )
        return value

    @model_validator(mode="after")
    def _scale_is_positive(self) -> OperatorSettings:
        if self.latent_scale != "auto" and self.latent_scale <= 0:
            raise ValueError(f"latent_scale must be positive or 'auto', got {self.latent_scale}")
        return self


class FineTuningSettings(Section):
    """The phase that trains network and operators together on [FINETUNE].

    The first four replace the same setting of ``[objective]`` in this phase; left out, that one
    holds here too.
    """

    sparsity_weight: float | None = Field(None, ge=0)
    operator_decay: float | None = Field(None, ge=0)
    real_part_penalty: float | None = Field(None, ge=0)
    real_part_tolerance: float | None = Field(None, ge=0)
    epochs: float = Field(5, ge=0)
    batch_size: int = Field(125, ge=2)
    network_learning_rate: float = Field(1e-4, gt=0)
    operator_learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="of the network's learning rate"
    )
    reconstruction_weight: float = Field(0.75, ge=0, le=1, description="lambda of [FINETUNE]")
    network_steps: int = Field(50, ge=1, description="network steps before the operators' turn")
    operator_steps: int = Field(50, ge=1)
    reconstruction_every: int = Field(
        10, ge=0, description="every so many network steps, reconstruction alone (0: never)"
    )


class BeyondPaperSettings(Section):
    """What the paper does not have; the defaults switch all of it off."""

    origin: Literal["encoder", "mirrored"] = Field(
        "encoder", description="on which side of the latents the origin lies that paths turn round"
    )
    edge_weight: float = Field(
        0.0, ge=0, description="weight of [EDGES] in the reconstruction error"
    )
    anchor_weight: float = Field(
        0.0, ge=0, description="of [ANCHOR]: fine-tuning keeps the latents' mean and spread"
    )
    arrival_weight: float = Field(
        0.0, ge=0, description="of [ARRIVAL]: the end of a path is decoded as the second image"
    )
    beyond_weight: float = Field(
        0.0, ge=0, description="of [BEYOND]: an extrapolated path shows images like the second one"
    )


class IdentitySettings(Section):
    """What counts as the same when an image is moved."""

    source: Literal["auto", "labels", "classifier", "graph"] = Field(
        "auto",
        description="labels, your own classifier, or groups of the neighbour graph; auto takes "
        "the classifier if its weights are given, else labels if there are any, else the graph",
    )
    graph: Literal["latent", "perceptual", "both"] = Field(
        "latent", description="which neighbours the graph joins: latents, the run's pairs, or both"
    )
    n_neighbours: int = Field(10, ge=1, description="of each image in the graph of latents")
    n_communities: int | None = Field(
        None, ge=2, description="groups of images; if left out, the largest gap of eigenvalues"
    )
    most_images: int = Field(
        200_000, ge=100, description="beyond so many the graph is made of a sample"
    )


class ClassifierSettings(Section):
    """The network that tells identities apart."""

    domain: Literal["image", "latent"] = "image"
    network: Literal["lenet", "latent-mlp", "attributes", "auto"] = "auto"
    epochs: float = Field(10, ge=0)
    batch_size: int = Field(128, ge=2)
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "one-cycle", "cosine"] = "constant"
    attributes: tuple[str, ...] = Field((), description="which to tell; none: the paper's sixteen")
    trunk: Literal["small", "resnet18"] = Field("small", description="of the attribute classifier")
    reconstructed: float = Field(
        0.0, ge=0, le=1, description="share of the images shown to it as the autoencoder has them"
    )
    imagenet_weights: str | None = Field(
        None, description="a file to start the trunk 'resnet18' from, or 'published' to fetch it"
    )
    loss_temperature: float = Field(
        1.0, gt=0, description="of the attributes' loss weights; large ones are more equal"
    )
    factory: str | None = Field(None, description="module:function that builds your own classifier")
    weights: str | None = Field(None, description="its safetensors file")


class CoefficientEncoderSettings(Section):
    """The network that says how far each operator may go at a point."""

    hidden: tuple[int, ...] = (512, 512)
    epochs: float = Field(20, ge=0)
    batch_size: int = Field(250, ge=2)
    learning_rate: float = Field(1e-3, gt=0)
    prior: Literal["auto", "fixed", "neighbours"] = Field(
        "auto",
        description="one scale for all operators and points, or the scales between neighbours; "
        "auto takes the neighbours' where identity comes from the neighbour graph",
    )
    prior_scale: float | None = Field(
        None,
        gt=0,
        description="zeta of the fixed prior; if left out, moves as long as images are apart",
    )
    kl_weight: float = Field(0.5, ge=0)
    scale_multiplier: float = Field(0.1, gt=0)
    target: Literal["labels", "classifier"] = "classifier"
    distil: bool = Field(True, description="train against a latent copy of classifier(decoder(z))")
    distil_samples: int = Field(60_000, ge=1_000)


class RuntimeSettings(Section):
    """Where and how the run computes; nothing here changes what is learned but the seed."""

    seed: int = Field(0, ge=0, lt=2**63)
    device: str = "auto"
    devices: int = Field(1, ge=1)
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    checkpoint_seconds: float = Field(60.0, ge=0, description="least time between checkpoints")


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
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))

    def updated(self, overrides: Iterable[str]) -> Self:
        """Apply ``section.key=value`` overrides on top of these settings."""
        tree = _without_none(self.model_dump(mode="json"))
        for override in overrides:
            _apply_override(tree, override)
        return settings_from_tree(tree, type(self))


_Kind = TypeVar("_Kind", bound=Settings)


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


@overload
def load_settings(
    recipe: str | Path,
    overrides: Iterable[str] = (),
    *,
    changes: Mapping[str, Any] | None = None,
) -> Settings: ...


@overload
def load_settings(
    recipe: str | Path,
    overrides: Iterable[str],
    kind: type[_Kind],
    changes: Mapping[str, Any] | None = None,
) -> _Kind: ...


def load_settings(
    recipe: str | Path,
    overrides: Iterable[str] = (),
    kind: type[Settings] = Settings,
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """Read a shipped recipe by name or a TOML file by path, then apply overrides.

    Args:
        recipe: ``"demo"``, ``"mnist"``, ... or the path of a ``.toml`` file.
        overrides: items such as ``"autoencoder.epochs=2"``.
        kind: the class of the settings; another package may add sections of its own.
        changes: the same by key and value, such as ``{"autoencoder.epochs": 2}``.
    """
    text, origin = _recipe_text(recipe)
    tree = _parse_toml(text, origin)
    tree.setdefault("recipe", Path(recipe).stem)
    try:
        upgrade(tree, kind.model_fields)
    except SettingsError as error:
        raise SettingsError(f"{origin}: {error}") from None
    if not isinstance(changes, Mapping | None):
        raise SettingsError(
            f"settings = {show(changes)}; pass a mapping such as {{'autoencoder.epochs': 2}}"
        )
    for key, value in (changes or {}).items():
        _set_key(tree, str(key), value, f"setting {key!r}")
    if not isinstance(overrides, Iterable) or isinstance(overrides, str | bytes):
        raise SettingsError(
            f"overrides = {show(overrides)}; pass a list such as ['autoencoder.epochs=2']"
        )
    for override in overrides:
        _apply_override(tree, override)
    try:
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
        except ValueError as error:  # no text, or a null byte in its name
            raise SettingsError(f"recipe file '{path}' cannot be read: {error}") from None
        except OSError as error:
            raise SettingsError(
                f"recipe file '{path}' cannot be read: {reason_of(error)}"
            ) from None
    raise SettingsError(
        f"unknown recipe '{recipe}'{_did_you_mean(str(recipe), names)}; shipped recipes are "
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
        valid = _valid_keys(location[:-1], kind)
        hint = _did_you_mean(location[-1], valid)
        return f"unknown setting '{key}'{hint}; valid keys here: {', '.join(valid)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message
    hint = ""
    expected = first.get("ctx", {}).get("expected")
    if first["type"] == "literal_error" and isinstance(expected, str):
        choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ",").split(",")]
        hint = _did_you_mean(str(first["input"]), choices)
    more = len(error.errors()) - 1
    others = f" (and {more} more)" if more and first["type"] != "literal_error" else ""
    return f"'{key}' = {show(first['input'])}: {message}{hint}{others}"


def _valid_keys(path: list[str], kind: type[Settings]) -> list[str]:
    model: type[BaseModel] = kind
    for part in path:
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _without_none(tree: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None
    }
