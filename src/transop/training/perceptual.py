"""The error of reconstructed images in the first feature maps of an ImageNet network."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import mse_loss

from transop.networks import prefer_channels_last
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.pairs.features import prepare_images

# After these blocks of EfficientNet-Lite0 (-1: the first convolution): 2, 2, 4 and 8 pixels wide.
BLOCKS = (-1, 0, 2, 4)
_SHARE = 4  # one image in so many of a batch is compared: feature maps cost more than the network


class PerceptualError:
    """Compare images by what the first layers of EfficientNet-Lite0 make of them.

    [PERCEPTUAL]  weight mean over l of E (F_l(x) - F_l(x_hat))^2 / Var F_l(x)

    F_l are feature maps, which tell edges, textures and small shapes. Squared error of pixels
    prefers a blurred edge to a sharp one in a slightly wrong place; feature maps do not. The
    variance of a channel is taken over the images at hand and averaged over channels, so that all
    layers count alike. Of every batch the first quarter is compared.
    """

    def __init__(self, weight: float, device: torch.device) -> None:
        self._weight = weight
        self._network = load_efficientnet_lite0().to(device)
        prefer_channels_last(self._network)

    def __call__(
        self, decoded: Float[Tensor, "b c h w"], images: Float[Tensor, "b c h w"]
    ) -> Float[Tensor, ""]:
        """Measure the weighted error of a batch; gradients reach the decoded images alone."""
        some = slice(0, -(-len(images) // _SHARE))
        with torch.no_grad():
            wanted = self._maps(images[some])
        total = decoded.new_zeros(())
        for found, real in zip(self._maps(decoded[some]), wanted, strict=True):
            variance = real.var(dim=(0, 2, 3)).mean().clamp_min(1e-6)
            total = total + mse_loss(found, real) / variance
        return self._weight * total / len(wanted)

    def _maps(self, images: Tensor) -> tuple[Tensor, ...]:
        return self._network.maps(prepare_images(images, images.shape[-1]), BLOCKS)
