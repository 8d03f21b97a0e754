"""The attribute classifier: one trunk, one small head per yes/no attribute, weighted losses."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from transop.errors import UserError
from transop_paper.resnet import ResNet18, load_imagenet_weights

N_HIDDEN = 256
DROPOUT = 0.5
N_TRUNK_FEATURES = 512


class ResNetTrunk(nn.Module):
    """ResNet-18 without its last layer: 512 features per image."""

    def __init__(self, network: ResNet18 | None = None) -> None:
        super().__init__()
        self.network = ResNet18() if network is None else network
        self.network.fc = nn.Identity()  # unused: its weights would only weigh down files

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 512"]:
        """Describe images by 512 features."""
        return self.network.features(images)


class SmallTrunk(nn.Module):
    """Four strided convolutions for generated faces: 512 features per image.

    Faces are aligned, so the last feature maps keep a 2 x 2 layout instead of being averaged
    away: above or below, left or right is half the answer.
    """

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width, N_TRUNK_FEATURES // 4)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(channels):
            convolution = nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(n_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 512"]:
        """Describe images by 512 features."""
        features: Tensor = self.layers(images - 0.5)
        return features


TRUNKS: dict[str, Callable[[], nn.Module]] = {"resnet18": ResNetTrunk, "small": SmallTrunk}


class AttributeNet(nn.Module):
    """Tells for every attribute how likely an image has it.

    As in the paper's appendix: each head is a linear layer with 256 hidden units, batch
    normalisation, dropout, ReLU, and two logits (absent, present). The trunk turns images with
    values from 0 to 1 into 512 features.
    """

    def __init__(self, attribute_names: Sequence[str], trunk: nn.Module) -> None:
        super().__init__()
        self.attribute_names = tuple(attribute_names)
        self.trunk = trunk
        self.heads = nn.ModuleList(_head() for _ in self.attribute_names)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b attributes 2"]:
        """Score absence and presence of every attribute."""
        features = self.trunk(images)
        return torch.stack([head(features) for head in self.heads], dim=1)


def _head() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(N_TRUNK_FEATURES, N_HIDDEN),
        nn.BatchNorm1d(N_HIDDEN),
        nn.Dropout(DROPOUT),
        nn.ReLU(),
        nn.Linear(N_HIDDEN, 2),
    )


def build_attribute_net(
    attribute_names: Sequence[str],
    *,
    trunk: str = "resnet18",
    imagenet_weights: str | Path | None = None,
) -> AttributeNet:
    """Build an attribute classifier by name.

    Args:
        attribute_names: one head each.
        trunk: a key of ``TRUNKS``: the paper's ``"resnet18"``, or ``"small"`` for a CPU.
        imagenet_weights: published weights to start the ResNet-18 from.
    """
    if not attribute_names:
        raise UserError("attribute_names is empty; name at least one attribute")
    if trunk not in TRUNKS:
        raise UserError(f"trunk '{trunk}' does not exist; choose one of {', '.join(TRUNKS)}")
    if imagenet_weights is None:
        return AttributeNet(attribute_names, TRUNKS[trunk]())
    if trunk != "resnet18":
        raise UserError(f"imagenet_weights fit trunk 'resnet18', not '{trunk}'; leave them out")
    network = load_imagenet_weights(imagenet_weights).train()
    return AttributeNet(attribute_names, ResNetTrunk(network))


def attribute_losses(
    logits: Float[Tensor, "b attributes 2"],
    attributes: Shaped[Tensor, "b attributes"],
    frequency: Float[Tensor, " attributes"] | None = None,
) -> Float[Tensor, " attributes"]:
    """Average the cross-entropy of every attribute over a batch; -1 and 0 mean absent.

    With ``frequency``, the share of images that have each attribute, its logarithm is added to the
    logits here and nowhere else (Menon et al. 2021). The network then learns what the images
    say, without how frequent an attribute is: it answers as if every attribute were as frequent
    as its absence. Otherwise it says "hardly" to almost every image where an attribute is rare.
    """
    present = (attributes > 0).long()
    if frequency is not None:
        logits = logits + torch.stack([1 - frequency, frequency], dim=1).log()
    losses = functional.cross_entropy(logits.transpose(1, 2), present, reduction="none")
    return losses.mean(dim=0)


class DynamicLossWeights(nn.Module):
    """Weights the attributes' losses by how their validation losses develop.

    Some attributes are learned in one epoch, others in ten; with equal weights the former go on
    pulling at the trunk long after they have nothing to learn. Following Mao et al. (2020), the
    weight of an attribute therefore follows the rate of change of its loss on the whole
    validation set. After validation number t, with N attributes and temperature T,

        rate_i   = L_i(t) / L_i(t-1)
        weight_i = N exp(rate_i / T) / sum_j exp(rate_j / T),

    so that attributes that still fall fast (small rate) step back, those that stall or rise get
    more attention, and the weights always average 1. Up to the second validation all are 1.

    Differs from the paper: it refers to Mao et al. without a formula; the normalised exponential
    keeps weights positive and bounded. Rates above 2 count as 2, so that one noisy validation
    of a loss close to zero cannot take over. A module, so that checkpoints carry its state.
    """

    weights: Tensor
    previous: Tensor

    def __init__(self, n_attributes: int, temperature: float = 1.0) -> None:
        super().__init__()
        if temperature <= 0:
            raise UserError(f"temperature={temperature} is impossible; use a positive number")
        self.temperature = temperature
        self.register_buffer("weights", torch.ones(n_attributes))
        self.register_buffer("previous", torch.zeros(n_attributes))  # 0: none yet

    def forward(self, losses: Float[Tensor, " attributes"]) -> Float[Tensor, ""]:
        """Combine the attributes' training losses into one."""
        return (self.weights * losses).mean()

    @torch.no_grad()
    def update(self, validation_losses: Float[Tensor, " attributes"]) -> None:
        """Set the weights anew from the latest validation losses."""
        if bool((self.previous > 0).any()):  # not before the second validation
            rates = (validation_losses / self.previous.clamp_min(1e-6)).clamp(0.0, 2.0)
            shares = (rates / self.temperature).softmax(dim=0)
            self.weights.copy_(len(shares) * shares)
        self.previous.copy_(validation_losses)
