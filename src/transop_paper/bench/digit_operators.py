"""Operators learned from real digits in seconds: what the inference benchmark runs on."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transop.data import load_dataset
from transop.learning import Objective, OperatorStep
from transop.operators import TransportOperators
from transop.progress import Progress, silent

N_NEIGHBOURS = 5


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


def find_neighbours(points: Float[Tensor, "n d"]) -> Int[Tensor, "n k"]:
    """List the nearest other points of every point."""
    distances = torch.cdist(points, points)
    distances.fill_diagonal_(torch.inf)
    nearest: Tensor = distances.topk(N_NEIGHBOURS, largest=False).indices
    return nearest


def learn_operators(
    dimension: int,
    n_operators: int,
    *,
    n_steps: int = 400,
    batch_size: int = 250,
    sparsity_weight: float = 0.05,
    operator_decay: float = 1e-4,
    learning_rate: float = 5e-3,
    seed: int = 0,
    progress: Progress = silent,
) -> LearnedProblem:
    """Alternate coefficient inference and Adam steps on the dictionary, as in training.

    Args:
        dimension: number of principal components that serve as latent space.
        n_operators: size of the dictionary, started at unit norm.
        n_steps: alternations.
        batch_size: neighbour pairs per alternation.
        sparsity_weight: zeta of [OBJECTIVE].
        operator_decay: gamma of the dictionary step.
        learning_rate: of Adam.
        seed: for the first operators and the draws of pairs.
        progress: shows the alternations.
    """
    generator = torch.Generator().manual_seed(seed)
    points = project_digits(dimension)
    module = TransportOperators(n_operators, dimension, generator=generator)
    learner = OperatorStep(module, Objective(sparsity_weight, operator_decay))
    problem = LearnedProblem(  # its operators are those of the module, as they are learned
        module.operators.detach(), points, find_neighbours(points), sparsity_weight
    )
    label = f"learning {n_operators} operators, latent {dimension}"
    for _ in progress(range(n_steps), label):
        found = learner.differentiate(*problem.draw_pairs(batch_size, generator))
        learner.descend(found.gradient, learning_rate)
    return problem
