"""The weights of [OBJECTIVE], chosen from the data where the settings ask for it."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from transop.learning import choose_objective
from transop.pairs import PairSource
from transop.training.latents import find_latent_scale
from transop.training.session import Session

_MOST_PAIRS = 5_000
_CHOSEN = ("sparsity_weight", "operator_decay", "real_part_penalty", "real_part_tolerance")


def choose_weights(
    session: Session, latents: Float[Tensor, "n d"], pairs: PairSource
) -> dict[str, Any]:
    """Let the pairs choose the weights of the objective, if ``operators.objective = "data"``.

    Args:
        session: its settings get the weights, for this and the later phases.
        latents: raw latents of the training images.
        pairs: which of them belong together.

    Returns:
        The weights, to be stored with the run; empty if the settings give them.
    """
    if session.settings.operators.objective == "settings":
        return {}
    operators = session.settings.operators
    scale = operators.latent_scale
    n_pairs = min(_MOST_PAIRS, max(len(pairs), 2))
    first, second = pairs.sample(session.generator("objective", "pairs"), n_pairs)
    chosen = choose_objective(
        latents[first].cpu(),
        latents[second].cpu(),
        operators.n_operators,
        latent_scale=find_latent_scale(latents) if scale == "auto" else float(scale),
        n_blocks=operators.n_blocks,
        generator=session.generator("objective", "trials"),
    )
    weights = {name: float(getattr(chosen, name)) for name in _CHOSEN}
    _use(session, weights)
    return weights


def recall_weights(session: Session) -> None:
    """Take up the weights that the data chose in an earlier phase of the run."""
    if session.settings.operators.objective == "data":
        facts = session.folder.finished_phases().get("operators", {})
        _use(session, {name: facts[name] for name in _CHOSEN if name in facts})


def _use(session: Session, weights: dict[str, float]) -> None:
    objective = session.settings.objective.model_copy(update=weights)
    session.settings = session.settings.model_copy(update={"objective": objective})
