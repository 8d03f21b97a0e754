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

    source: str = "digits"  # a data set's name, a folder, a zip or an .npy/.npz
    image_size: int | None = Field(None, ge=8, le=512)
    channels: Literal[1, 3] | None = None
    # Images that are not square: keep the central square, or pad with black.
    fit: Literal["crop", "pad"] = "crop"
    # The part of every image to keep: the side of the central square in pixels, 'celeba', or
    # [left, top, right, bottom] as shares from 0 to 1.
    crop: int | str | tuple[float, float, float, float] | None = None
    # 'random' for any source; CelebA has 'paper' and 'official'.
    split: Literal["paper", "official", "random"] | None = None
    limit: int | None = Field(None, ge=2)  # use only so many training images, evenly spaced

    @field_validator("crop", mode="before")
    @classmethod
    def _crop_is_possible(cls, value: Any) -> Any:
        check_crop(value)
        return value


class AutoencoderSettings(Section):
    """The network, and the phase that trains it on reconstruction alone."""

    network: Literal["auto", "mnist", "celeba", "conv32", "conv", "deep"] = "auto"
    latent_dimension: int = Field(10, ge=1, le=1024)
    width: int = Field(32, ge=1, le=1024)  # channels of the convolutions
    epochs: float = Field(20, ge=0)
    batch_size: int = Field(128, ge=2)
    learning_rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "one-cycle", "cosine"] = "one-cycle"
    # A run whose trained autoencoder is taken over instead of training one; with a factory, the
    # safetensors file of its modules.
    weights: str | None = None
    # module:function that returns your own encoder and decoder (or None); latent_dimension is then
    # the number of principal directions that operators act on.
    factory: str | None = None


class PairSettings(Section):
    """How two images become a pair the operators should connect."""

    strategy: Literal[
        "perceptual", "pixel", "latent", "same-class", "perceptual-in-class", "random", "given"
    ] = "perceptual"
    n_neighbours: int = Field(5, ge=1)
    backbone: Literal["auto", "efficientnet-lite0", "resnet18"] = "auto"
    weights: str | None = None  # a file of backbone weights, if not the default
    # Side in pixels to which images are brought for the backbone; left out, by the images' size.
    input_size: int | None = Field(None, ge=32)
    given: str | None = None  # a file of index pairs for strategy 'given'


class ObjectiveSettings(Section):
    """The weights of [OBJECTIVE], with which operators are learned and coefficients inferred."""

    sparsity_weight: float = Field(0.05, ge=0)  # zeta
    operator_decay: float = Field(1e-4, ge=0)  # gamma
    real_part_penalty: float = Field(0.0, ge=0)  # weight of [REALPART]
    real_part_tolerance: float = Field(0.0, ge=0)  # real parts up to this size are free


class OperatorSettings(Section):
    """The dictionary of operators, and the phase that learns it with the network fixed."""

    # Use the weights of [objective], or let the pairs choose all four.
    objective: Literal["settings", "data"] = "settings"
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
    schedule: Literal["constant", "cosine"] = "constant"  # of the network's learning rate
    reconstruction_weight: float = Field(0.75, ge=0, le=1)  # lambda of [FINETUNE]
    network_steps: int = Field(50, ge=1)  # before the operators' turn
    operator_steps: int = Field(50, ge=1)
    # Every so many network steps, reconstruction alone (0: never).
    reconstruction_every: int = Field(10, ge=0)


class BeyondPaperSettings(Section):
    """What the paper does not have; the defaults switch all of it off."""

    # On which side of the latents the origin lies that paths turn round.
    origin: Literal["encoder", "mirrored"] = "encoder"
    edge_weight: float = Field(0.0, ge=0)  # of [EDGES] in the reconstruction error
    perceptual_weight: float = Field(0.0, ge=0)  # of [PERCEPTUAL] in the reconstruction error
    # Of [ANCHOR]: fine-tuning keeps the latents' mean and spread.
    anchor_weight: float = Field(0.0, ge=0)
    # Of [ARRIVAL]: the end of a path is decoded as the second image.
    arrival_weight: float = Field(0.0, ge=0)
    # Of [BEYOND]: an extrapolated path shows images like the second one.
    beyond_weight: float = Field(0.0, ge=0)


class IdentitySettings(Section):
    """What counts as the same when an image is moved."""

    # Labels, your own classifier, or groups of the neighbour graph; auto takes the classifier if
    # its weights are given, else labels if there are any, else the graph.
    source: Literal["auto", "labels", "classifier", "graph"] = "auto"
    # Which neighbours the graph joins: latents, the run's pairs, or both.
    graph: Literal["latent", "perceptual", "both"] = "latent"
    n_neighbours: int = Field(10, ge=1)  # of each image in the graph of latents
    # Groups of images; if left out, the largest gap of eigenvalues.
    n_communities: int | None = Field(None, ge=2)
    most_images: int = Field(200_000, ge=100)  # beyond so many the graph is made of a sample


class ClassifierSettings(Section):
    """The network that tells identities apart."""

    domain: Literal["image", "latent"] = "image"
    network: Literal["lenet", "latent-mlp", "attributes", "auto"] = "auto"
    epochs: float = Field(10, ge=0)
    batch_size: int = Field(128, ge=2)
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "one-cycle", "cosine"] = "constant"
    attributes: tuple[str, ...] = ()  # which to tell; none: the paper's sixteen
    trunk: Literal["small", "resnet18"] = "small"  # of the attribute classifier
    # Share of the images shown to it as the autoencoder has them.
    reconstructed: float = Field(0.0, ge=0, le=1)
    # A file to start the trunk 'resnet18' from, or 'published' to fetch it.
    imagenet_weights: str | None = None
    # Tell attributes as if each were as frequent as its absence.
    even_odds: bool = False
    # Of the attributes' loss weights; large ones are more equal.
    loss_temperature: float = Field(1.0, gt=0)
    factory: str | None = None  # module:function that builds your own classifier
    weights: str | None = None  # its safetensors file


class CoefficientEncoderSettings(Section):
    """The network that says how far each operator may go at a point."""

    hidden: tuple[int, ...] = (512, 512)
    epochs: float = Field(20, ge=0)
    batch_size: int = Field(250, ge=2)
    learning_rate: float = Field(1e-3, gt=0)
    # One scale for all operators and points, or the scales between neighbours; auto takes the
    # neighbours' where identity comes from the neighbour graph.
    prior: Literal["auto", "fixed", "neighbours"] = "auto"
    # Zeta of the fixed prior; if left out, moves as long as images are apart.
    prior_scale: float | None = Field(None, gt=0)
    kl_weight: float = Field(0.5, ge=0)
    # Where scales begin; 'neighbours': moves half the way to the nearest image.
    scale_multiplier: PositiveFloat | Literal["neighbours"] = 0.1
    distil: bool = True  # train against a latent copy of classifier(decoder(z))
    distil_samples: int = Field(60_000, ge=1_000)


class RuntimeSettings(Section):
    """Where and how the run computes; apart from the seed, nothing here changes what is learned."""

    seed: int = Field(0, ge=0, lt=2**63)
    device: str = "auto"
    devices: int = Field(1, ge=1)
    threads: int | None = Field(None, ge=1, le=1024)  # of torch on the CPU; left out: its choice
    # Of the networks in training; auto: mixed where the processor computes with bfloat16.
    precision: Literal["auto", "32-true", "bf16-mixed"] = "32-true"
    checkpoint_seconds: float = Field(60.0, ge=0)  # least time between checkpoints
