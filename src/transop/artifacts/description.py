"""What a stored model says about itself, checked on saving and before anything is built from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from transop.errors import ArtifactError, show

# Far beyond any network that fits into memory, and small enough for sizes to be multiplied.
_LARGEST = 1_000_000
_MOST_LAYERS, _MOST_NAMES, _LONGEST_NAME = 64, 100_000, 1_000
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-20, 1e20

Size = Annotated[int, Field(ge=1, le=_LARGEST)]
Scale = Annotated[float, Field(ge=_SMALLEST_SCALE, le=_LARGEST_SCALE)]
Name = Annotated[str, Field(max_length=_LONGEST_NAME)]
Names = Annotated[list[Name], Field(max_length=_MOST_NAMES)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class NetworkDescription(_Part):
    """One of our own autoencoders: a name and four numbers."""

    name: Name
    image_size: Size
    channels: Size
    latent_dimension: Size
    width: Size


class ModulesDescription(_Part):
    """An autoencoder of the user's own modules, which are never imported from a file."""

    image_shape: list[Size] = Field(min_length=1, max_length=4)
    latent_shape: list[Size] = Field(min_length=1, max_length=4)
    latent_dimension: Size
    has_decoder: bool
    explained: float | None = Field(ge=0, le=1)
    frozen: bool


class OperatorsDescription(_Part):
    """The dictionary of operators."""

    n_operators: int = Field(ge=0, le=_LARGEST)
    dimension: Size
    n_blocks: Size


class CoefficientEncoderDescription(_Part):
    """The network that gives every operator's scale at a point."""

    latent_dimension: Size
    n_operators: int = Field(ge=0, le=_LARGEST)
    hidden: list[Size] = Field(max_length=_MOST_LAYERS)
    scale_multiplier: Scale


class ClassifierNumbers(_Part):
    """What a file may pass to ``build_classifier``; each network takes some of them."""

    image_size: Size | None = None
    channels: Size | None = None
    latent_dimension: Size | None = None
    n_classes: Size | None = None
    hidden: Size | None = None
    attribute_names: list[Name] | None = Field(None, min_length=1, max_length=_MOST_LAYERS**2)
    trunk: Name | None = None


class ClassifierDescription(_Part):
    """One of our own classifiers."""

    network: Literal["lenet", "latent-mlp", "attributes"]
    numbers: ClassifierNumbers


class FactoryDescription(_Part):
    """A classifier of the user's own, which is never imported from a file."""

    factory: Name


class IdentityDescription(_Part):
    """Whose opinion the classifier's is, and how it was found."""

    source: Literal["labels", "classifier", "graph"]
    n_communities: Size | None = None
    label_purity: float | None = Field(None, ge=0, le=1)
    label_adjusted_rand: float | None = Field(None, ge=-1, le=1)


class ModelDescription(_Part):
    """Everything about a ``ManifoldAutoencoder`` but its weights."""

    autoencoder: NetworkDescription | ModulesDescription
    operators: OperatorsDescription
    latent_scale: Scale
    sparsity_weight: float = Field(ge=0, le=_LARGEST_SCALE)
    prior_scale: Scale
    coefficient_encoder: CoefficientEncoderDescription | None
    classifier: ClassifierDescription | FactoryDescription | None
    classifier_domain: Literal["image", "latent"]
    phases: Names
    class_names: Names | None
    identity: IdentityDescription | None = None

    def numbers(self) -> dict[str, Any]:
        """List the keyword arguments of ``ManifoldAutoencoder`` that are no modules."""
        named = ("latent_scale", "sparsity_weight", "prior_scale", "classifier_domain")
        facts = None if self.identity is None else self.identity.model_dump(exclude_none=True)
        numbers = {name: getattr(self, name) for name in (*named, "phases", "class_names")}
        return {**numbers, "identity_facts": facts}

    @model_validator(mode="after")
    def _parts_fit_together(self) -> ModelDescription:
        dimension, encoder = self.operators.dimension, self.coefficient_encoder
        if self.autoencoder.latent_dimension != dimension:
            raise ValueError(
                f"operators act on {dimension} dimensions but the autoencoder has "
                f"{self.autoencoder.latent_dimension}"
            )
        if dimension % self.operators.n_blocks:
            raise ValueError(f"{self.operators.n_blocks} blocks do not divide {dimension}")
        wanted = (dimension, self.operators.n_operators)
        if encoder is not None and (encoder.latent_dimension, encoder.n_operators) != wanted:
            raise ValueError(
                f"the coefficient encoder is for {encoder.n_operators} operators on "
                f"{encoder.latent_dimension} dimensions, not {wanted[1]} on {wanted[0]}"
            )
        classifier, names = self.classifier, self.class_names
        by_graph = self.identity is not None and self.identity.source == "graph"
        if isinstance(classifier, ClassifierDescription) and names is not None and not by_graph:
            n_classes = classifier.numbers.n_classes
            if n_classes is not None and len(names) != n_classes:
                raise ValueError(f"there are {len(names)} class_names for {n_classes} classes")
        return self


def check_description(config: Any, where: str) -> ModelDescription:
    """Validate a description, or say in one line what is wrong with it and where it is."""
    try:
        return ModelDescription.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] != "value_error":
            message = f"{'.'.join(map(str, first['loc']))} = {show(first['input'])}: {message}"
        raise ArtifactError(f"{where} has an impossible description: {message}") from None
