"""Learn transport operators from pairs of vectors: the paper's central act, on tensors alone.

`learn_operators` is the whole of it; `choose_objective` finds weights for data that nobody has
tuned for. The step itself (`OperatorStep`) is also what the operator phase and fine-tuning of an
image model repeat. No files, no printing, no global randomness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transop.errors import TensorError, UserError
from transop.inputs import (
    check_alike,
    check_callable,
    check_dense,
    check_finite,
    check_generator,
    check_number,
    check_precise,
    check_whole,
)
from transop.learning.step import (
    Objective,
    OperatorStep,
    PathStatistics,
    measure_paths,
)
from transop.operators import TransportOperators
from transop.operators.devices import where_supported

_USUAL_DECAY_SHARE = 1 / 500  # operator_decay as a share of a given sparsity weight

# How the objective is chosen from the data.
_COVERED, _MOST_USED = 0.5, 0.5
_FIRST_SHARE, _NEXT_SHARE = 0.4, 0.7  # sparsity weights tried: first of the mean distance
_DECAY_SHARE = 1 / 20  # with it operators keep norms of about one, and unneeded ones die out
_MOST_TRIALS = 12
_FEW = 2  # operators that any path may use
_TRIAL_STEPS, _TRIAL_BATCH, _TRIAL_RATE = 100, 100, 1e-2
_TRIAL_PAIRS = 500  # on which a trial is judged
_PENALTY_SHARE, _TOLERANCE = 0.25, 0.25  # of real parts
_AFFORDED = 0.9  # share of what paths cover that must be left with the penalty on real parts

_MEASURED = 2000  # pairs on which the closing evidence is measured
_FLAT = 0.01  # relative fall of the objective, from one tenth of the steps to the next


@dataclass(frozen=True)
class LearnedOperators:
    """Operators learned from pairs, plus the evidence for trusting them.

    A linear flow does not depend on the units of the vectors, so the operators fit the vectors
    as they were passed in and also those vectors divided by ``latent_scale``. Only the sparsity
    weight depends on the units: ``objective.sparsity_weight`` is for the divided vectors,
    ``sparsity_weight`` for those that were passed in.

    Attributes:
        operators: the dictionary Psi.
        objective: the weights it was learned with.
        latent_scale: what the vectors were divided by, so that their mean length is one.
        history: the objective of every step, decay and real parts left out.
        paths: measured at the end, on the pairs learned from.
        living: which operators are in use; their number is the estimated model order.
        converged: whether the objective had stopped falling (by less than 1 % over the last
            tenth of the steps).
    """

    operators: Float[Tensor, "m d d"]
    objective: Objective
    latent_scale: float
    history: Float[Tensor, " steps"]
    paths: PathStatistics
    living: Bool[Tensor, " m"]
    converged: bool

    @property
    def sparsity_weight(self) -> float:
        """The sparsity weight for vectors in the units they were passed in."""
        return self.objective.sparsity_weight * self.latent_scale**2


def learn_operators(
    z0: Float[Tensor, "n d"],
    z1: Float[Tensor, "n d"],
    n_operators: int,
    *,
    sparsity_weight: float | None = None,
    operator_decay: float | None = None,
    real_part_penalty: float | None = None,
    real_part_tolerance: float | None = None,
    n_steps: int = 600,
    batch_size: int = 250,
    learning_rate: float = 5e-3,
    latent_scale: float | None = None,
    initial: Float[Tensor, "m d d"] | None = None,
    n_blocks: int = 1,
    block_layout: Literal["one-per-operator", "diagonal"] = "one-per-operator",
    generator: torch.Generator | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> LearnedOperators:
    """Learn operators whose flow carries each vector of z0 to its partner in z1.

    [OBJECTIVE]  1/2 |z1 - expm(sum_m c_m Psi_m) z0|^2 + gamma/2 sum_m |Psi_m|^2 + zeta |c|_1

    Works on any vectors. The origin matters: the flow leaves it in place, and vectors near it can
    hardly move. Subtract the mean, or do not, before you call. The learning rate falls to zero
    along half a cosine.

    Everyday arguments come first; the defaults suit vectors of any length.

    Args:
        z0: starting points.
        z1: end points, one per starting point.
        n_operators: m, the size of the dictionary; what is not needed dies out.
        sparsity_weight: zeta, for vectors divided by ``latent_scale``. Left out, the data choose
            all weights that are left out: see :func:`choose_objective`.
        operator_decay: gamma; left out but the sparsity weight given, a 500th of that, as in the
            shipped recipes.
        real_part_penalty: weight of [REALPART]; left out but the sparsity weight given, 0.
        real_part_tolerance: real parts up to this size are not penalised.
        n_steps: how many batches of pairs are learned from.
        batch_size: pairs per step; all of them if there are fewer.
        learning_rate: of the first step.
        latent_scale: the vectors are divided by it; their mean length if left out.
        initial: operators to start from; random ones of norm 1 if left out.
        n_blocks: cut the dimensions into this many equal blocks that operators do not mix.
        block_layout: ``"one-per-operator"``, or ``"diagonal"``: every operator acts on all blocks.
        generator: where the randomness comes from; a fixed seed if left out.
        callback: called after every step with its number, from 0, and the objective.

    Raises:
        UserError: an argument has the wrong shape, type or value, or learning diverged.
    """
    scale = _check(z0, z1, n_steps, batch_size, learning_rate, latent_scale)
    check_callable("callback", callback, n_arguments=2, optional=True)
    generator = check_generator(generator)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    start, end = z0.detach() / scale, z1.detach() / scale
    operators = _first_operators(
        n_operators, start, initial, n_blocks, block_layout, generator=generator
    )
    given = {
        "sparsity_weight": sparsity_weight,
        "operator_decay": operator_decay,
        "real_part_penalty": real_part_penalty,
        "real_part_tolerance": real_part_tolerance,
    }
    objective = _resolve(given, start, end, operators)
    learner = OperatorStep(operators, objective)
    history = []
    for step, (a, b) in enumerate(_batches(start, end, n_steps, batch_size, generator)):
        rate = learning_rate * _cosine(step / n_steps)
        history.append(_learn_from(learner, a, b, rate, step))
        if callback is not None:
            callback(step, history[-1])
    dictionary = operators.operators.detach().clone()
    return LearnedOperators(
        operators=dictionary,
        objective=objective,
        latent_scale=scale,
        history=torch.tensor(history),
        paths=measure_paths(
            dictionary, *_some(start, end, _MEASURED), sparsity_weight=objective.sparsity_weight
        ),
        living=operators.living(),
        converged=_is_flat(history),
    )


def choose_objective(
    z0: Float[Tensor, "n d"],
    z1: Float[Tensor, "n d"],
    n_operators: int,
    *,
    covered: float = _COVERED,
    most_used: float = _MOST_USED,
    latent_scale: float | None = None,
    n_blocks: int = 1,
    n_steps: int = _TRIAL_STEPS,
    generator: torch.Generator | None = None,
) -> Objective:
    """Choose the weights of the objective from the pairs, by several short trials of learning.

    - Sparsity: the largest weight of a falling series with which paths cover the share
      ``covered`` of the distance; but not so small that a path uses more than the share
      ``most_used`` of the operators (and more than two), as it does where the pairs differ
      mostly by noise.
    - Decay: a 20th of the sparsity weight. Larger operators need smaller coefficients, so in the
      end only the combination of both weights matters; with this one operators keep norms of
      about one, and those that are not needed die out within a few hundred steps.
    - Real parts: up to 0.25 they are free, and the penalty is a quarter of the sparsity weight,
      unless it would cost a tenth of what paths cover. Then paths need to grow, and there is none.

    Args:
        z0: starting points.
        z1: end points.
        n_operators: the size of the dictionary.
        covered: share of the distance that paths are to cover.
        most_used: share of the operators that a path may use.
        latent_scale: the vectors are divided by it; their mean length if left out.
        n_blocks: as in :func:`learn_operators`.
        n_steps: length of each trial.
        generator: where the randomness comes from; a fixed seed if left out.

    Returns:
        Weights for vectors divided by ``latent_scale``.
    """
    scale = _check(z0, z1, n_steps, _TRIAL_BATCH, 1.0, latent_scale)
    covered = check_number("covered", covered, "a share, from 0 to 1", high=1)
    most_used = check_number("most_used", most_used, "a share, from 0 to 1", high=1)
    generator = check_generator(generator)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    start, end = z0.detach() / scale, z1.detach() / scale
    operators = _first_operators(
        n_operators, start, None, n_blocks, "one-per-operator", generator=generator
    )
    return _choose(start, end, operators, n_steps, covered, most_used * n_operators)


def _choose(
    z0: Tensor,
    z1: Tensor,
    first: TransportOperators,
    n_steps: int,
    covered: float,
    most_used: float,
) -> Objective:
    """Try weights as `choose_objective` says, on scaled vectors, each from the same operators."""
    z0, z1 = _some(z0, z1, _MEASURED)

    def paths_with(objective: Objective) -> PathStatistics:
        learner = OperatorStep(deepcopy(first), objective)
        order = torch.Generator().manual_seed(0)
        for step, (a, b) in enumerate(_batches(z0, z1, n_steps, _TRIAL_BATCH, order)):
            _learn_from(learner, a, b, _TRIAL_RATE * _cosine(step / n_steps), step)
        found, weight = learner.operators.operators.detach(), objective.sparsity_weight
        some = slice(0, _TRIAL_PAIRS)
        return measure_paths(found, z0[some], z1[some], sparsity_weight=weight)

    weight = _FIRST_SHARE * float(torch.linalg.vector_norm(z1 - z0, dim=1).mean())
    chosen = None
    for _ in range(_MOST_TRIALS):
        tried = Objective(weight, weight * _DECAY_SHARE)
        paths = paths_with(tried)
        if paths.nonzeros > max(most_used, _FEW) and chosen is not None:
            break
        chosen, reached = tried, paths.covered
        if reached >= covered:
            break
        weight *= _NEXT_SHARE
    assert chosen is not None
    steady = replace(
        chosen,
        real_part_penalty=_PENALTY_SHARE * chosen.sparsity_weight,
        real_part_tolerance=_TOLERANCE,
    )
    return steady if paths_with(steady).covered >= _AFFORDED * reached else chosen


def _resolve(
    given: dict[str, float | None], z0: Tensor, z1: Tensor, operators: TransportOperators
) -> Objective:
    """Fill in the weights that the caller left out."""
    known = {name: value for name, value in given.items() if value is not None}
    weight = Objective(**known).sparsity_weight  # refuses what is no weight
    if "sparsity_weight" not in known:
        most_used = _MOST_USED * operators.n_operators
        chosen = _choose(z0, z1, operators, _TRIAL_STEPS, _COVERED, most_used)
    else:
        chosen = Objective(weight, weight * _USUAL_DECAY_SHARE)
    return replace(chosen, **known)


def _check(
    z0: Tensor,
    z1: Tensor,
    n_steps: int,
    batch_size: int,
    learning_rate: float,
    latent_scale: float | None,
) -> float:
    """Refuse what cannot be learned from; give the scale of the vectors."""
    check_alike(z0=z0, z1=z1)
    if z0.ndim != 2 or z0.shape != z1.shape or 0 in z0.shape:
        raise TensorError(
            f"z0 has shape {tuple(z0.shape)} and z1 {tuple(z1.shape)}; pass two tensors of one "
            "shape (pairs, dimensions) with at least one pair"
        )
    check_precise(z0=z0, z1=z1)
    check_finite(z0=z0, z1=z1)
    check_whole("n_steps", n_steps, least=1)
    check_whole("batch_size", batch_size, least=1)
    check_number("learning_rate", learning_rate, "a positive number", open=True)
    if bool((z0 == z1).all()):
        raise UserError(
            "z0 and z1 are equal in every pair, so there is no move to learn; pair each vector "
            "with another one"
        )
    if latent_scale is None:
        return mean_length(torch.cat([z0, z1]))
    return check_number("latent_scale", latent_scale, "a positive number", open=True)


def mean_length(vectors: Float[Tensor, "n d"]) -> float:
    """Average the lengths of vectors; 1 if all of them are zero."""
    length = float(
        torch.linalg.vector_norm(where_supported(vectors.detach()).double(), dim=1).mean()
    )
    return length if length > 0 else 1.0


def _first_operators(
    n_operators: int,
    like: Tensor,
    initial: Tensor | None,
    n_blocks: int,
    block_layout: Literal["one-per-operator", "diagonal"],
    *,
    generator: torch.Generator,
) -> TransportOperators:
    check_whole("n_operators", n_operators, least=1)
    dimension = like.shape[1]
    operators = TransportOperators(
        n_operators, dimension, n_blocks=n_blocks, block_layout=block_layout, generator=generator
    ).to(like)
    if initial is not None:
        wanted = (n_operators, dimension, dimension)
        check_dense(initial=initial)
        if initial.shape != wanted:
            raise TensorError(f"initial has shape {tuple(initial.shape)}; pass {wanted}")
        check_finite(initial=initial)
        with torch.no_grad():
            operators.weight.copy_(initial)
    return operators


def _batches(
    z0: Tensor, z1: Tensor, n_steps: int, batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Visit all pairs in random order, again and again."""
    size = min(batch_size, len(z0))
    taken, order = 0, torch.empty(0, dtype=torch.int64)
    for _ in range(n_steps):
        if taken + size > len(order):
            order = torch.randperm(len(z0), generator=generator, device=generator.device)
            order, taken = order.to(z0.device), 0
        rows = order[taken : taken + size]
        taken += size
        yield z0[rows], z1[rows]


def _learn_from(learner: OperatorStep, z0: Tensor, z1: Tensor, rate: float, step: int) -> float:
    """Take one step and give the objective before it, decay and real parts left out."""
    coefficients, losses, gradient = learner.differentiate(z0, z1)
    penalty = learner.objective.sparsity_weight * coefficients.abs().sum(1)
    value = float((losses + penalty).mean())
    if not math.isfinite(value + float(gradient.abs().sum())):
        raise UserError(
            f"the objective is not finite at step {step}: the operators have grown until paths "
            "overflow; raise operator_decay, or lower learning_rate"
        )
    learner.descend(gradient, rate)
    return value


def _some(z0: Tensor, z1: Tensor, n_pairs: int) -> tuple[Tensor, Tensor]:
    """Take pairs at random, always the same ones, at most so many."""
    if len(z0) <= n_pairs:
        return z0, z1
    order = torch.randperm(len(z0), generator=torch.Generator().manual_seed(0))
    rows = order[:n_pairs].to(z0.device)
    return z0[rows], z1[rows]


def _cosine(part: float) -> float:
    """Fall from one to zero along half a cosine."""
    return (1 + math.cos(math.pi * part)) / 2


def _is_flat(history: list[float]) -> bool:
    tenth = max(1, len(history) // 10)
    if len(history) < 2 * tenth:
        return False
    last, before = (sum(part) / tenth for part in (history[-tenth:], history[-2 * tenth : -tenth]))
    return before - last < _FLAT * before
