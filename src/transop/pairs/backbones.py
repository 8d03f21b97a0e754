"""The pretrained networks that perceptual features come from."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from transop.data.download import fetch_once
from transop.errors import UserError
from transop.files import digest_of_file, reason_of
from transop.networks.efficientnet_lite import EfficientNetLite0, load_efficientnet_lite0
from transop.networks.resnet import IMAGENET_URL, ResNet18, load_imagenet_weights
from transop.pairs.features import FeatureExtractor, batch_size_for, prepare_images

_RESNET_SHA256 = "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"


def efficientnet_lite0(input_size: int, weights: Path | None, cache_dir: Path) -> FeatureExtractor:
    """Offer the 1280 pre-logit features of EfficientNet-Lite0, whose weights are a package."""
    del cache_dir
    origin = "package" if weights is None else _digest(weights)  # refuses what is no file
    network = load_efficientnet_lite0(weights)
    return _pre_logits("efficientnet-lite0", network, input_size, origin)


def resnet18(input_size: int, weights: Path | None, cache_dir: Path) -> FeatureExtractor:
    """Offer the 512 features of ResNet-18, the paper's choice; its weights are downloaded once."""
    path = published_resnet(cache_dir) if weights is None else weights
    origin = _digest(path)
    return _pre_logits("resnet18", load_imagenet_weights(path), input_size, origin)


def auto(input_size: int, weights: Path | None, cache_dir: Path) -> FeatureExtractor:
    """Offer EfficientNet-Lite0; a weights file is taken for the network its name speaks of."""
    if weights is not None and "resnet" in weights.name.lower():
        return resnet18(input_size, weights, cache_dir)
    return efficientnet_lite0(input_size, weights, cache_dir)


# From the side of the network's input, a weights file and the root of the cache.
Backbone = Callable[[int, Path | None, Path], FeatureExtractor]
BACKBONES: dict[str, Backbone] = {
    "auto": auto,
    "efficientnet-lite0": efficientnet_lite0,
    "resnet18": resnet18,
}


def _pre_logits(
    name: str, network: EfficientNetLite0 | ResNet18, input_size: int, origin: str
) -> FeatureExtractor:
    """Wrap a network so that it takes images of any size, grey or colour."""
    network.requires_grad_(False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it

    def describe(images: Tensor) -> Tensor:
        return network.features(prepare_images(images, input_size))

    return FeatureExtractor(
        describe, batch_size_for(input_size), f"{name}/{origin}/{input_size}", module=network
    )


def published_resnet(cache_dir: Path) -> Path:
    """Give the file of ResNet-18's published weights, downloaded once into the cache."""
    try:
        return fetch_once(IMAGENET_URL, cache_dir / "weights", _RESNET_SHA256)
    except (UserError, OSError) as error:  # no network, a full disk, or not the published bytes
        raise UserError(
            f"features='resnet18' needs its published weights: {error}; pass the file as "
            "weights=, or pip install 'transop[perceptual]' for a network that needs no download"
        ) from error


def _digest(path: Path) -> str:
    try:
        return digest_of_file(path)[:16]
    except OSError as error:
        raise UserError(f"weights='{path}' cannot be read ({reason_of(error)})") from error
