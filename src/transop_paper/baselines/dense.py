"""The paper's ablation: transport operators whose coefficients come from a network, not sparse."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.operators import TransportOperators, transport, transport_path
from transop_paper.baselines.model import Baseline


class DenseAutoencoder(Baseline):
    """A manifold autoencoder that reads all coefficients of a pair off a network.

    Two hidden layers turn [z0, z1] into one coefficient per operator; all of them are used for
    every pair, kept small by a squared penalty. Latents are in scaled units, as in our model.
    """

    method = "dense"
    number_names = frozenset(
        [
            "n_operators",
            "hidden",
            "latent_scale",
            "coefficient_penalty",
            "operator_decay",
            "reconstruction_weight",
        ]
    )

    def __init__(self, network: nn.Module, *, numbers: dict[str, Any]) -> None:
        super().__init__(network, numbers=numbers)
        d, m, hidden = self.latent_dimension, numbers["n_operators"], numbers["hidden"]
        self.operators = TransportOperators(m, d)
        self.coefficient_network = nn.Sequential(
            nn.Linear(2 * d, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, m),
        )

    def coefficients(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"]
    ) -> Float[Tensor, "b m"]:
        """Read the coefficients of pairs off the network."""
        found: Tensor = self.coefficient_network(torch.cat([z0, z1], dim=1))
        return found

    def path_loss(self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"]) -> Float[Tensor, ""]:
        """Measure what [OBJECTIVE] becomes with a squared penalty on network coefficients.

        [DENSE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + weight |c|^2
        """
        dictionary = self.operators.operators
        with torch.autocast(z0.device.type, enabled=False):  # paths need single precision
            z0, z1 = z0.to(dictionary), z1.to(dictionary)
            chosen = self.coefficients(z0, z1)
            misfit = (z1 - transport(dictionary, chosen, z0)).square().sum(1).mean() / 2
            decay = self.numbers["operator_decay"] * dictionary.square().sum() / 2
            penalty = self.numbers["coefficient_penalty"] * chosen.square().sum(1).mean()
            loss: Tensor = misfit + decay + penalty
        return loss

    def forward(
        self, images: Float[Tensor, "b c h w"], generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Measure the joint loss of pairs, given as all starts and then as many ends."""
        del generator
        raw = self.network.encode(images)
        reconstruction = 2 * (self.network.decode(raw) - images).square().mean()
        z0, z1 = (raw / self.numbers["latent_scale"]).chunk(2)
        share: float = self.numbers["reconstruction_weight"]
        loss: Tensor = share * reconstruction + (1 - share) * self.path_loss(z0, z1)
        return loss

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images to latent points in scaled units."""
        scaled: Tensor = super().encode(images) / self.numbers["latent_scale"]
        return scaled

    def decode(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Map latent points in scaled units to images."""
        return super().decode(latents * self.numbers["latent_scale"])

    @torch.no_grad()
    def latent_path(
        self, z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"], times: Float[Tensor, " t"]
    ) -> Float[Tensor, "b t d"]:
        """Follow the flow of the network's coefficients."""
        return transport_path(self.operators.operators, self.coefficients(z0, z1), z0, times)
