"""Operators learned from real digits in seconds: what the inference benchmark runs on."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

import transop
from transop.data import load_dataset
from transop.pairs import nearest_neighbours

N_NEIGHBOURS = 5
SPARSITY_WEIGHT = 0.05


@dataclass(frozen=True)
class LearnedProblem:
    """A dictionary and the points it was learned on."""

    operators: Float[Tensor, "m d d"]
    points: Float[Tensor, "n d"]
    neighbours: Int[Tensor, "n k"]
    sparsity_weight: float

    def draw_pairs(
        self, n_pairs: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """Draw points, each with a random one of its neighbours."""
        first = torch.randint(len(self.points), (n_pairs,), generator=generator)
        which = torch.randint(N_NEIGHBOURS, (n_pairs,), generator=generator)
        return self.points[first], self.points[self.neighbours[first, which]]


def project_digits(dimension: int) -> Float[Tensor, "n d"]:
    """Project the 5,000 digits on their first principal components.

    All components share one scale, twice the first one's standard deviation, so that nearly all
    entries lie within [-1, 1], as the paper asks of latent points.
    """
    images = torch.from_numpy(load_dataset("digits").images)
    pixels = images.reshape(len(images), -1).to(torch.float64)
    pixels -= pixels.mean(0)
    variances, directions = torch.linalg.eigh(pixels.T @ pixels / len(pixels))
    leading = directions[:, -dimension:].flip(1)
    projected: Tensor = pixels @ leading / (2 * variances[-1].sqrt())
    return projected.float()


def learn_operators(
    dimension: int, n_operators: int, *, n_steps: int = 400, seed: int = 0
) -> LearnedProblem:
    """Learn operators from neighbouring digits, as `transop.learn_operators` does.

    The first ``dimension`` principal components serve as latent space.
    """
    points = project_digits(dimension)
    neighbours = nearest_neighbours(points, N_NEIGHBOURS)
    learned = transop.learn_operators(
        points.repeat_interleave(N_NEIGHBOURS, 0),
        points[neighbours.flatten()],
        n_operators,
        sparsity_weight=SPARSITY_WEIGHT,
        operator_decay=1e-4,
        latent_scale=1.0,
        n_steps=n_steps,
        generator=torch.Generator().manual_seed(seed),
    )
    return LearnedProblem(learned.operators, points, neighbours, SPARSITY_WEIGHT)
