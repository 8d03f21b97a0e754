"""The methods we compare with, behind the same protocol as ours and trained as carefully."""

from transop_paper.baselines.beta_vae import BetaVAE
from transop_paper.baselines.contractive import ContractiveAutoencoder
from transop_paper.baselines.dense import DenseAutoencoder
from transop_paper.baselines.model import Baseline, LinearAutoencoder

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
