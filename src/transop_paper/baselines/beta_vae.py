"""The beta-VAE, in the architecture of its own paper (Higgins et al., 2017)."""

from dataclasses import asdict
from itertools import chain, pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from transop.errors import UserError
from transop.networks import AutoencoderShape
from transop_paper.baselines.model import Baseline

_HALVINGS = 4
_HIDDEN = 256


class BetaVAENetwork(nn.Module):
    """Four strided convolutions (32, 32, 64, 64 maps) and 256 units, and the same in reverse.

    Differs from its paper: images whose side is no multiple of 16 are padded with zeros to the
    next one and the output is cropped; 28 pixels become 32, which leaves 2x2 before the units.
    The published network is for 64 pixels, where nothing is padded.
    """

    def __init__(self, shape: AutoencoderShape) -> None:
        super().__init__()
        self.shape = shape
        w, multiple = shape.width, 2**_HALVINGS
        side = -(-shape.image_size // multiple)
        self._margin = side * multiple - shape.image_size
        maps = [shape.channels, w, w, 2 * w, 2 * w]
        flat = maps[-1] * side**2
        down = [(nn.Conv2d(i, o, 4, 2, 1), nn.ReLU()) for i, o in pairwise(maps)]
        self.encoder = nn.Sequential(
            *chain(*down),
            nn.Flatten(),
            nn.Linear(flat, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, 2 * shape.latent_dimension),
        )
        wide = pairwise(reversed(maps[1:]))
        up = [(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.ReLU()) for i, o in wide]
        self.decoder = nn.Sequential(
            nn.Linear(shape.latent_dimension, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, flat),
            nn.ReLU(),
            nn.Unflatten(1, (maps[-1], side, side)),
            *chain(*up),
            nn.ConvTranspose2d(maps[1], shape.channels, 4, 2, 1),
        )

    def posterior(
        self, images: Float[Tensor, "b c h w"]
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """Give mean and log-variance of every latent."""
        before = self._margin // 2
        edges = (before, self._margin - before)
        mean, log_variance = self.encoder(functional.pad(images, edges * 2)).chunk(2, dim=1)
        return mean, log_variance

    def logits(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Decode up to the last sigmoid."""
        size, before = self.shape.image_size, self._margin // 2
        kept = slice(before, before + size)
        pixels: Tensor = self.decoder(latents)[..., kept, kept]
        return pixels

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to the means of their latents."""
        return self.posterior(images)[0]

    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map latents to images in [0, 1]."""
        return self.logits(latents).sigmoid()

    def architecture(self) -> dict[str, str | int]:
        """List the arguments that build this network again."""
        return asdict(self.shape)


class BetaVAE(Baseline):
    """A variational autoencoder whose divergence weighs ``beta`` times as much.

    Differs from its paper: beta grows from zero to its value on the first steps of training.
    With the whole weight from the start, short runs give up their latents before the decoder has
    learned to use them, and never come back.

    Traversals move one latent by units of the prior's standard deviation, the latents that carry
    most information first.
    """

    method = "beta-vae"
    number_names = frozenset({"beta", "warm_up_steps"})
    steps: Tensor

    def __init__(self, network: nn.Module, *, numbers: dict[str, Any]) -> None:
        super().__init__(network, numbers=numbers)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def weight(self) -> float:
        """Give the weight of the divergence at this step of training."""
        share = (int(self.steps) + 1) / max(1, self.numbers["warm_up_steps"])
        weight: float = self.numbers["beta"] * min(1.0, share)
        return weight

    @staticmethod
    def build_network(**architecture: Any) -> nn.Module:
        """Build the untrained network, that of Higgins et al. whatever name is asked for."""
        size = architecture["image_size"]
        if size < 16:
            raise UserError(f"image_size = {size}: the beta-VAE takes images of 16 pixels or more")
        own = {**architecture, "name": "higgins", "width": 32}
        return BetaVAENetwork(AutoencoderShape(**own))

    def forward(
        self, images: Float[Tensor, "b c h w"], generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Measure the negative evidence bound with a heavier divergence, per pixel.

        [BETAVAE]  (-log p(x | z) + beta KL(q(z | x) | N(0, 1))) / number of pixels

        As in its paper, grey images are Bernoulli and colour images Gaussian with unit variance.
        """
        mean, log_variance = self.network.posterior(images)
        noise = torch.randn(mean.shape, generator=generator).to(mean)
        logits = self.network.logits(mean + (log_variance / 2).exp() * noise)
        if images.shape[1] == 1:
            misfit = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
        else:
            misfit = (logits.sigmoid() - images).square() / 2
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance) / 2
        total = misfit.flatten(1).sum(1) + self.weight() * divergence.sum(1)
        if self.training:
            self.steps += 1
        loss: Tensor = total.mean() / images[0].numel()
        return loss

    def directions(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d d"]:
        """Give the latent axes, those whose means vary most over the data first."""
        order = self.latent_covariance.diagonal().argsort(descending=True)
        axes = torch.eye(self.latent_dimension, device=self.device)[order]
        return axes.expand(len(images), -1, -1)
