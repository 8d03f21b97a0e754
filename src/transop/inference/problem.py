"""A batch of pairs whose coefficients are sought, what solvers do with it, and their result."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transop.operators.series import bound_norm, build_generator
from transop.operators.transport import transport

# A generator longer than this is where no sensible path ends: it counts as infinitely bad
# instead of being exponentiated in ever more steps.
_LONGEST_GENERATOR = 64.0

Record = TypeVar("Record")


def map_fields(function: Callable[..., Tensor], *records: Record) -> Record:
    """Make a record of what a function gives for each field of one record, or of several."""
    kind = type(records[0])
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(*(function(*(getattr(record, name) for record in records)) for name in names))


@dataclass(frozen=True)
class Problem:
    """Pairs, the dictionary that should connect them, and what each coefficient costs."""

    operators: Float[Tensor, "m d d"]
    z0: Float[Tensor, "b d"]
    z1: Float[Tensor, "b d"]
    weights: Float[Tensor, "b m"]

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return self.z0.shape[0]

    def select(self, chosen: Int[Tensor, " k"] | slice) -> "Problem":
        """Keep some of the pairs."""
        return Problem(self.operators, self.z0[chosen], self.z1[chosen], self.weights[chosen])

    def to(self, device: torch.device) -> "Problem":
        """Move everything to a device."""
        return map_fields(lambda tensor: tensor.to(device), self)

    def double(self) -> "Problem":
        """Convert everything to double precision."""
        return map_fields(Tensor.double, self)

    def miss(self, coefficients: Float[Tensor, "b m"]) -> Float[Tensor, "b d"]:
        """Compute z1 - z1_hat; infinite where the coefficients are absurdly large."""
        norm = bound_norm(build_generator(self.operators, coefficients))
        sane = (norm <= _LONGEST_GENERATOR).unsqueeze(-1)
        # where() and not a product: infinite coefficients times zero would be NaN.
        tamed = torch.where(sane, coefficients, torch.zeros_like(coefficients))
        missed = self.z1 - transport(self.operators, tamed, self.z0)
        return torch.where(sane, missed, torch.full_like(missed, torch.inf))

    def objective(self, coefficients: Float[Tensor, "b m"]) -> Float[Tensor, " b"]:
        """Evaluate [OBJECTIVE] per pair; infinite where the coefficients are absurdly large."""
        return self.cost(coefficients, self.miss(coefficients))

    def cost(
        self, coefficients: Float[Tensor, "b m"], missed: Float[Tensor, "b d"]
    ) -> Float[Tensor, " b"]:
        """Add up [OBJECTIVE] per pair from what the path misses."""
        return missed.square().sum(-1) / 2 + (self.weights * coefficients.abs()).sum(-1)


class ConvergenceWarning(UserWarning):
    """Some pairs did not converge; ``InferenceResult.converged`` says which."""


@dataclass(frozen=True)
class InferenceResult:
    """Sparse coefficients, plus the evidence for trusting them.

    Attributes:
        coefficients: c, one row per pair.
        objective: [OBJECTIVE] of each pair, penalty included.
        residual: |z1 - z1_hat| / |z1| of each pair: the l1 term stops paths short of z1.
        converged: whether each pair is stationary to the tolerance; a batch mean would hide
            failures.
        iterations: of the run that was kept, per pair.
    """

    coefficients: Float[Tensor, "b m"]
    objective: Float[Tensor, " b"]
    residual: Float[Tensor, " b"]
    converged: Bool[Tensor, " b"]
    iterations: Int[Tensor, " b"]

    def to(self, device: torch.device) -> "InferenceResult":
        """Move everything to a device."""
        return map_fields(lambda tensor: tensor.to(device), self)


def assess(
    problem: Problem,
    coefficients: Float[Tensor, "b m"],
    converged: Bool[Tensor, " b"],
    iterations: Int[Tensor, " b"],
) -> InferenceResult:
    """Measure where the coefficients lead and wrap everything up."""
    missed = problem.miss(coefficients)
    return InferenceResult(
        coefficients=coefficients,
        objective=problem.cost(coefficients, missed),
        residual=relative_miss(torch.linalg.vector_norm(missed, dim=-1), problem.z1),
        converged=converged,
        iterations=iterations,
    )


def relative_miss(distance: Float[Tensor, " b"], z1: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
    """Divide the distance |z1 - z1_hat| that a path misses by the length of its target."""
    length = torch.linalg.vector_norm(z1, dim=-1)
    return torch.div(distance, length.clamp_min(torch.finfo(z1.dtype).tiny))


def share_covered(
    distance: Float[Tensor, " b"], z0: Float[Tensor, "b d"], z1: Float[Tensor, "b d"]
) -> Float[Tensor, " b"]:
    """Tell which share of the distance from start to target a path covers.

    [SHARE]  1 - |z1 - z1_hat| / |z1 - z0|: one for a hit, zero for a path that stands still

    Args:
        distance: |z1 - z1_hat|, what the path misses.
        z0: the start.
        z1: the target.
    """
    gap = torch.linalg.vector_norm(z1 - z0, dim=-1)
    return torch.sub(1, distance / gap.clamp_min(torch.finfo(z1.dtype).tiny))


def solve_in_chunks(
    solve: Callable[..., InferenceResult],
    problem: Problem,
    *per_pair: Tensor,
    entries_per_pair: int,
    entries: int = 2**25,
) -> InferenceResult:
    """Solve a few pairs at a time, so that working memory does not grow with the batch.

    Args:
        solve: called with a part of the problem and of everything in ``per_pair``.
        problem: the pairs.
        per_pair: tensors with one row per pair, such as the first coefficients.
        entries_per_pair: numbers that ``solve`` keeps in memory per pair.
        entries: numbers that may be in memory at once.
    """
    size = max(1, entries // max(1, entries_per_pair))
    if problem.n_pairs <= size:
        return solve(problem, *per_pair)
    parts = [slice(start, start + size) for start in range(0, problem.n_pairs, size)]
    results = [
        solve(problem.select(part), *(tensor[part] for tensor in per_pair)) for part in parts
    ]
    return map_fields(lambda *parts: torch.cat(parts), *results)
