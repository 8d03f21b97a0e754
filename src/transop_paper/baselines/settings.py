"""Settings of the baselines: those of our method, and a section for each baseline."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from transop.config import Section, Settings, load_settings

# What the paper changes for a baseline on one data set. At the paper's weight of 5 the quick run
# is so short that the beta-VAE gives up every latent, at 1 most of them.
RECIPE_CHANGES: dict[str, tuple[str, ...]] = {
    "celeba": ("beta_vae.beta=10",),
    "celeba-cpu": ("beta_vae.beta=10",),
    "faces": ("beta_vae.beta=10",),
    "quick": ("beta_vae.beta=0.3", "beta_vae.warm_up=0.8"),
}


class ContractiveSettings(Section):
    """The contractive autoencoder."""

    penalty_weight: float = Field(1.0, ge=0)
    estimator: Literal["exact", "stochastic"] = "stochastic"


class BetaVAESettings(Section):
    """The beta-VAE."""

    beta: float = Field(5.0, ge=0)
    warm_up: float = Field(0.5, ge=0, le=1, description="share of the steps on which beta grows")


class DenseSettings(Section):
    """The ablation whose coefficients come from a network instead of sparse inference."""

    hidden: int = Field(256, ge=1, description="units of each of the two hidden layers")
    coefficient_penalty: float = Field(1e-3, ge=0, description="weight of the squared penalty")


class BaselineSettings(Settings):
    """Everything a baseline's run needs to know."""

    method: Literal["ae", "cae", "beta-vae", "dense"] = "ae"
    contractive: ContractiveSettings = ContractiveSettings()
    beta_vae: BetaVAESettings = BetaVAESettings()
    dense: DenseSettings = DenseSettings()


def baseline_settings(
    base: Settings | str | Path, method: str, overrides: Iterable[str] = ()
) -> BaselineSettings:
    """Derive the settings of a baseline from a recipe, or from the run it is compared with."""
    if not isinstance(base, Settings):
        base = load_settings(base, (), BaselineSettings)
    changes = [f"method={method}", *RECIPE_CHANGES.get(base.recipe, ()), *overrides]
    return BaselineSettings(**dict(base)).updated(changes)
