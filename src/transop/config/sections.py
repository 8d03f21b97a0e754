"""The sections of the settings: one per phase, with defaults, ranges and descriptions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, field_validator

from transop.errors import show

PHASES = ("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder")
# Named parts of an image: left, top, right, bottom as shares of width and height.
CROPS = {
    # The central square of CelebA's 178 x 218 pictures, at any scale and even when they were
    # squashed to a square: the box is stretched back.
    "celeba": (0.0, 20 / 218, 1.0, 198 / 218),
}


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
    latent_scale: PositiveFloat | Literal["auto"] = "auto"
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
    scale_multiplier: PositiveFloat | Literal["neighbours"] = Field(
        0.1,
        description="where scales begin; 'neighbours': moves half the way to the nearest image",
    )
    distil: bool = Field(True, description="train against a latent copy of classifier(decoder(z))")
    distil_samples: int = Field(60_000, ge=1_000)


class RuntimeSettings(Section):
    """Where and how the run computes; apart from the seed, nothing here changes what is learned."""

    seed: int = Field(0, ge=0, lt=2**63)
    device: str = "auto"
    devices: int = Field(1, ge=1)
    threads: int | None = Field(
        None, ge=1, le=1024, description="of torch on the CPU; torch's own choice if left out"
    )
    precision: Literal["auto", "32-true", "bf16-mixed"] = Field(
        "32-true",
        description="of the networks in training; auto: mixed where the processor computes with "
        "bfloat16",
    )
    checkpoint_seconds: float = Field(60.0, ge=0, description="least time between checkpoints")
