"""The contractive autoencoder, with a Jacobian penalty that really reaches the weights."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.functional import jacobian

from transop_paper.baselines.model import Baseline, with_fixed_signs

Estimator = Literal["exact", "stochastic"]


class ContractiveAutoencoder(Baseline):
    """An autoencoder whose encoder is asked to be flat, so that what slope is left is meant.

    Its tangent directions at an image are the singular vectors of the encoder's Jacobian there.

    Differs from the paper: the authors' penalty carries no gradient, which is why its weight made
    no difference to them; here it is differentiated.
    """

    method = "cae"
    number_names = frozenset({"penalty_weight", "estimator"})

    def forward(
        self, images: Float[Tensor, "b c h w"], generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Add the squared Frobenius norm of the encoder's Jacobian to the squared error.

        [CONTRACTIVE]  (|x - x_hat|^2 + weight |dz/dx|_F^2) / number of pixels, averaged over images
        """
        inputs = images.detach().requires_grad_(True)
        latents = self.network.encode(inputs)
        error = (self.network.decode(latents) - images).square().mean()
        penalty = squared_jacobian(latents, inputs, self.numbers["estimator"], generator)
        weight: float = self.numbers["penalty_weight"]
        loss: Tensor = error + weight * penalty.mean() / images[0].numel()
        return loss

    def directions(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d d"]:
        """Give the left singular vectors of dz/dx, each as long as the latents spread along it.

        A step of an image along a right singular vector moves its latent along the left one.
        """
        with self.evaluating(), torch.enable_grad():
            slopes = encoder_jacobian(self.network.encode, images.to(self.device))
        gram = slopes @ slopes.mT
        vectors = torch.linalg.eigh(gram).eigenvectors.flip(-1).mT
        spread = torch.einsum("bki,ij,bkj->bk", vectors, self.latent_covariance, vectors)
        return with_fixed_signs(vectors * spread.clamp_min(0).sqrt().unsqueeze(-1))


def squared_jacobian(
    latents: Float[Tensor, "b d"],
    images: Float[Tensor, "b c h w"],
    estimator: Estimator,
    generator: torch.Generator,
) -> Float[Tensor, " b"]:
    """Measure |dz/dx|_F^2 at every image, differentiably.

    ``"exact"`` sums the squared gradients of all d latents: d backward passes. ``"stochastic"``
    takes one: with v standard normal, the mean of |v^T J|^2 is |J|_F^2.

    Each image's rows carry a random sign. Batch normalisation couples the images of a batch so
    that the *sum* of a latent over them hardly moves; with signs, coupling adds up as squares,
    and what is measured is the Jacobian of the batch as the network computes it in training.
    """
    n, d = latents.shape
    if estimator == "exact":
        signs = torch.randint(0, 2, (n, 1), generator=generator).to(latents) * 2 - 1
        probes = [signs * row for row in torch.eye(d).to(latents)]
    else:
        probes = [torch.randn((n, d), generator=generator).to(latents)]
    total = latents.new_zeros(n)
    for probe in probes:
        (slope,) = torch.autograd.grad(latents, images, probe, create_graph=True)
        total = total + slope.square().flatten(1).sum(1)
    return total


def encoder_jacobian(
    encode: Callable[[Tensor], Tensor], images: Float[Tensor, "b c h w"]
) -> Float[Tensor, "b d pixels"]:
    """Differentiate every latent of every image with respect to its pixels."""
    # Images do not depend on each other, so that the slope of a sum is that of each.
    slopes: Tensor = jacobian(lambda inputs: encode(inputs).sum(0), images.detach())  # type: ignore[no-untyped-call]
    return slopes.flatten(2).transpose(0, 1)
