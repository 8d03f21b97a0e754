"""The methods we compare with, behind the same protocol as ours and trained as carefully."""

from transop.baselines.beta_vae import BetaVAE
from transop.baselines.contractive import ContractiveAutoencoder
from transop.baselines.dense import DenseAutoencoder
from transop.baselines.linear import LinearAutoencoder
from transop.baselines.model import Baseline

BASELINES: dict[str, type[Baseline]] = {
    "ae": LinearAutoencoder,
    "cae": ContractiveAutoencoder,
    "beta-vae": BetaVAE,
    "dense": DenseAutoencoder,
}

__all__ = [
    "BASELINES",
    "Baseline",
    "BetaVAE",
    "ContractiveAutoencoder",
    "DenseAutoencoder",
    "LinearAutoencoder",
]
