"""ResNet-18, with parameters named as in torch's published weights so that they load unchanged."""

import pickle
from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from transop.errors import ArtifactError
from transop.files import require_regular

IMAGENET_URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
N_FEATURES = 512
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
# Bytes that are no checkpoint make torch's reader fail in any of these ways.
_UNREADABLE = (
    *(SafetensorError, OSError, RuntimeError, ValueError, EOFError, LookupError),
    pickle.UnpicklingError,
)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions whose result is added to the input."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(n_out))

    def forward(self, x: Float[Tensor, "b n_in h w"]) -> Float[Tensor, "b n_out h2 w2"]:
        """Transform feature maps, keeping a shortcut for the gradient."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu(y + self.downsample(x))
        return out


class ResNet18(nn.Module):
    """Residual network of 18 layers for colour images with values from 0 to 1.

    Normalisation by ImageNet's mean and deviation happens inside, so that callers hand over
    images as everywhere else in the library.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _stage(64, 64, stride=1)
        self.layer2 = _stage(64, 128, stride=2)
        self.layer3 = _stage(128, 256, stride=2)
        self.layer4 = _stage(256, N_FEATURES, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc: nn.Module = nn.Linear(N_FEATURES, num_classes)
        # not persistent: the published weights do not hold them
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer(
            "deviation", torch.tensor(_DEVIATION).view(1, 3, 1, 1), persistent=False
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 512"]:
        """Describe images by the 512 averaged features before the last layer."""
        x = (images - self.mean) / self.deviation
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        pooled: Tensor = self.avgpool(x).flatten(1)
        return pooled

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes"]:
        """Score images for every class."""
        logits: Tensor = self.fc(self.features(images))
        return logits


def _stage(n_in: int, n_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(n_in, n_out, stride), ResidualBlock(n_out, n_out, 1))


def load_imagenet_weights(path: str | Path) -> ResNet18:
    """Build a ResNet-18 in evaluation mode from a file of published ImageNet weights.

    The file is ``resnet18-*.pth`` as published by torch, or the same tensors as ``.safetensors``.
    """
    network = ResNet18()
    load_weights(network, Path(path), "ResNet-18", f"download {IMAGENET_URL} and pass its path")
    return network.eval()


def load_weights(
    network: nn.Module,
    path: Path,
    name: str,
    remedy: str,
    convert: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict,
) -> None:
    """Fill a network of a name from a file of published weights, or refuse the file."""
    if not path.exists():
        raise ArtifactError(f"{name} weights '{path}' do not exist; {remedy}")
    try:
        require_regular(path)
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE:
        raise ArtifactError(f"{name} weights '{path}' cannot be read; {remedy}") from None
    try:
        network.load_state_dict(convert(state))
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise ArtifactError(f"'{path}' does not hold {name} weights ({reason}); {remedy}") from None
