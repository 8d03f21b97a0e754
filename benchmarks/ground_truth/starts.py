"""Where the learning of operators starts: at random, or at the best of many fitted generators."""

from __future__ import annotations

import torch
from torch import Tensor

STARTS, ROUNDS = 200, 40
TOGETHER = 20  # starts that are fitted at once
PAIRS = 1000  # pairs that they are fitted to
RIDGE = (10.0, 0.01)  # first and last, as a share of the mean variance: coarse to fine
SAME = 1.01  # times the smallest misfit: starts below it ended at the same place


def best_start(z0: Tensor, z1: Tensor, seed: int) -> tuple[Tensor, float]:
    """Fit one generator A to z1 - z0 = c A z, with a free c for every pair, from many starts.

    Nothing says which way round a pair goes, so the sign of each c is free. A generator that goes
    forward at some places and backward at others is a local minimum, and most random starts end
    in one. The best of many starts, by the misfit of the pairs alone, is the remedy. A ridge that
    falls from large to small fits the coarse changes first.

    Returns:
        The generator, of norm one, and the share of starts that ended as low as the best one.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(z0), generator=generator)[:PAIRS]
    step, middle = (z1 - z0)[rows], (z0 + z1)[rows] / 2
    misfits, found = [], []
    for _ in range(STARTS // TOGETHER):
        size = (TOGETHER, z0.shape[1], z0.shape[1])
        matrices = torch.randn(size, generator=generator)
        for turn in range(ROUNDS):
            part = min(1.0, 1.4 * turn / ROUNDS)  # the last rounds keep the last ridge
            ridge = RIDGE[0] * (RIDGE[1] / RIDGE[0]) ** part
            matrices = _refit(_coefficients(matrices, step, middle), step, middle, ridge)
        misfits.append(_misfit(matrices, step, middle))
        found.append(matrices)
    misfit, every = torch.cat(misfits), torch.cat(found)
    best = every[misfit.argmin()]
    return best / best.norm(), float((misfit < SAME * misfit.min()).float().mean())


def _coefficients(matrices: Tensor, step: Tensor, middle: Tensor) -> Tensor:
    """Give the c of every start and pair, of mean square one; slow places count less."""
    flow = middle @ matrices.mT
    speed = flow.square().sum(2)
    c = (flow * step).sum(2) / (speed + 0.01 * speed.mean(1, keepdim=True))
    return c / c.square().mean(1, keepdim=True).sqrt().clamp_min(1e-12)


def _refit(c: Tensor, step: Tensor, middle: Tensor, ridge: float) -> Tensor:
    """Fit A to step = c A middle by least squares, for every start."""
    moved = c[..., None] * middle
    gram = moved.mT @ moved
    variance = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    eye = torch.eye(gram.shape[-1])
    return torch.linalg.solve(gram + ridge * variance * eye, moved.mT @ step).mT


def _misfit(matrices: Tensor, step: Tensor, middle: Tensor) -> Tensor:
    """Give the share of the squared steps that no c explains, for every start."""
    flow = middle @ matrices.mT
    along = (flow * step).sum(2).square() / flow.square().sum(2).clamp_min(1e-12)
    return 1 - along.sum(1) / step.square().sum()
