"""Retrieval along a transformation: turn an object, or give a face an attribute, and look it up."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import transop
from embeddings.measures import BATCH, TESTED, Vectors
from transop.operators import transport, transport_path

TURN, CLOSE, RIDGE = 12.0, 6.0, 1e-2  # degrees, degrees, weight
ADDED, ADDED_LENGTH = (1, 2, 3, 5), 0.8  # traits that are added to faces, and how far
FEW = 8  # operators of a known transformation


def turned_pairs(data: Vectors, rows: np.ndarray, degrees: float) -> tuple[Tensor, Tensor]:
    """Pair rows of one object whose angles differ by a number of degrees."""
    assert data.angle is not None
    first, second = [], []
    for group in np.unique(data.groups[rows]):
        members = rows[data.groups[rows] == group]
        angle = data.angle[members]
        away = np.abs(angle[None] - angle[:, None] - degrees)
        there = away.argmin(1)
        good = away.min(1) < 0.7
        first.append(members[good])
        second.append(members[there[good]])
    return torch.from_numpy(np.concatenate(first)), torch.from_numpy(np.concatenate(second))


def learn_turn(
    data: Vectors, rows: np.ndarray, n_steps: int, seed: int
) -> transop.LearnedOperators:
    """Learn operators from frames of one object that are a fixed turn apart."""
    a, b = turned_pairs(data, rows, TURN)
    return transop.learn_operators(
        data.z[a],
        data.z[b],
        FEW,
        sparsity_weight=0.01,
        operator_decay=5e-4,
        n_steps=n_steps,
        batch_size=100,
        generator=torch.Generator().manual_seed(seed),
    )


def turns(
    data: Vectors, neighbours: transop.LearnedOperators, n_steps: int, seed: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Turn objects by a fixed angle, three ways."""
    turned = learn_turn(data, data.train, n_steps, seed)
    return {
        "turn, held-out angles": turn_known(data, turned),
        "turn, held-out objects": turn_unknown(data, n_steps, seed),
        "turn again": turn_again(data, neighbours),
    }


def turn_known(data: Vectors, learned: transop.LearnedOperators) -> dict[str, dict[str, float]]:
    """Turn objects at angles that were held out, with what was learned at other angles."""
    a, b = turned_pairs(data, data.train, TURN)
    start, wanted = turned_pairs(data, data.test, TURN)
    guesses = {
        "operators, mean coefficients of the object": _by_object(
            data, a, start, _mover(data, learned, a, b)
        ),
        "mean difference of the object": _by_object(data, a, start, _difference(data, a, b)),
        "linear map": _linear_map(data, a, b)(start, np.arange(len(a))),
        "linear map of the object": _by_object(data, a, start, _linear_map(data, a, b)),
        "standing still": data.z[start],
    }
    return {name: _score(data, guess, start, wanted) for name, guess in guesses.items()}


def turn_unknown(data: Vectors, n_steps: int, seed: int) -> dict[str, dict[str, float]]:
    """Turn an object that was never seen, with what was learned from the others."""
    objects = np.unique(data.groups)
    left_out = objects[seed % len(objects)]
    everything = np.arange(len(data.z))
    known = everything[data.groups != left_out]
    learned = learn_turn(data, known, n_steps, seed)
    a, b = turned_pairs(data, known, TURN)
    start, wanted = turned_pairs(data, everything[data.groups == left_out], TURN)
    rows = np.arange(len(a))
    guesses = {
        "operators, mean coefficients": _mover(data, learned, a, b)(start, rows),
        "mean difference": _difference(data, a, b)(start, rows),
        "linear map": _linear_map(data, a, b)(start, rows),
        "standing still": data.z[start],
    }
    return {name: _score(data, guess, start, wanted) for name, guess in guesses.items()}


def turn_again(data: Vectors, neighbours: transop.LearnedOperators) -> dict[str, dict[str, float]]:
    """See a held-out frame and one a turn later, and guess the frame half way, and one further."""
    a, b = turned_pairs(data, data.test, TURN)
    later = dict(zip(a.tolist(), b.tolist(), strict=True))
    start = torch.tensor([i for i in later if later[i] in later])
    middle = torch.tensor([later[int(i)] for i in start])
    last = torch.tensor([later[int(i)] for i in middle])
    z = data.z
    guesses = {
        "straight line": ((z[start] + z[last]) / 2, 2 * z[middle] - z[start]),
        "standing still": (z[start], z[middle]),
        "operators of neighbours": (
            _follow(neighbours, z[start], z[last], 0.5),
            _follow(neighbours, z[start], z[middle], 2.0),
        ),
    }
    return {
        name: {
            **{f"between: {k}": v for k, v in _score(data, inside, start, middle).items()},
            **{f"further: {k}": v for k, v in _score(data, outside, middle, last).items()},
        }
        for name, (inside, outside) in guesses.items()
    }


def _follow(learned: transop.LearnedOperators, z0: Tensor, z1: Tensor, t: float) -> Tensor:
    psi, weight = learned.operators, learned.sparsity_weight / 10
    found = transop.infer_coefficients(psi, z0, z1, sparsity_weight=weight)
    return transport_path(psi, found.coefficients, z0, torch.tensor([t]))[:, 0]


Guess = Callable[[Tensor, np.ndarray], Tensor]  # starts, and which known pairs to learn from


def _mover(data: Vectors, learned: transop.LearnedOperators, a: Tensor, b: Tensor) -> Guess:
    found = transop.infer_coefficients(
        learned.operators, data.z[a], data.z[b], sparsity_weight=learned.sparsity_weight
    ).coefficients

    def guess(start: Tensor, pairs: np.ndarray) -> Tensor:
        mean = found[torch.from_numpy(pairs)].mean(0)
        return transport(learned.operators, mean.expand(len(start), -1), data.z[start])

    return guess


def _difference(data: Vectors, a: Tensor, b: Tensor) -> Guess:
    steps = data.z[b] - data.z[a]
    return lambda start, pairs: data.z[start] + steps[torch.from_numpy(pairs)].mean(0)


def _linear_map(data: Vectors, a: Tensor, b: Tensor) -> Guess:
    """Fit z1 - z0 = M z0 by ridge regression."""

    def guess(start: Tensor, pairs: np.ndarray) -> Tensor:
        rows = torch.from_numpy(pairs)
        z0, step = data.z[a[rows]].double(), (data.z[b[rows]] - data.z[a[rows]]).double()
        ridge = RIDGE * torch.eye(z0.shape[1]).double()
        matrix = torch.linalg.solve(z0.T @ z0 + ridge, z0.T @ step)
        return data.z[start] + (data.z[start].double() @ matrix).float()

    return guess


def _by_object(data: Vectors, a: Tensor, start: Tensor, guess: Guess) -> Tensor:
    """Let every object have its own guess, from its own pairs."""
    result = data.z[start].clone()
    for group in np.unique(data.groups[start]):
        mine = torch.from_numpy(np.flatnonzero(data.groups[start] == group))
        result[mine] = guess(start[mine], np.flatnonzero(data.groups[a] == group))
    return result


def _score(data: Vectors, guess: Tensor, start: Tensor, wanted: Tensor) -> dict[str, float]:
    """Give the share of the way left, and how often the nearest other row is the right one."""
    assert data.angle is not None
    way = (data.z[wanted] - data.z[start]).norm(dim=1)
    distance = torch.cdist(guess, data.z)
    distance[torch.arange(len(start)), start] = torch.inf
    rows = distance.argmin(1).numpy()
    off = np.abs((data.angle[rows] - data.angle[wanted] + 180) % 360 - 180)
    hit = (data.groups[rows] == data.groups[wanted]) & (off < CLOSE)
    left = (data.z[wanted] - guess).norm(dim=1).mean() / way.mean()
    return {"way left": float(left), "hit": float(hit.mean())}


def add_attributes(
    data: Vectors, learned: transop.LearnedOperators, seed: int
) -> dict[str, dict[str, float]]:
    """Give faces an attribute and look up the nearest held-out face.

    The transformation is learned from training rows without the attribute and their nearest row
    with it. Both ways of applying it have the same mean length.
    """
    chance = torch.Generator().manual_seed(seed)
    found: dict[str, list[dict[str, float]]] = {}
    for trait in ADDED:
        a, b = _attribute_pairs(data, trait, chance)
        weight = learned.sparsity_weight
        inferred = transop.infer_coefficients(
            learned.operators, data.z[a], data.z[b], sparsity_weight=weight
        )
        coefficients, step = inferred.coefficients.mean(0), (data.z[b] - data.z[a]).mean(0)
        rows = data.test[data.traits[data.test, trait] == 0][:TESTED]
        z = data.z[torch.from_numpy(rows)]

        def flow(size: float, z: Tensor = z, c: Tensor = coefficients) -> Tensor:
            return transport(learned.operators, (size * c).expand(len(z), -1), z)

        def line(size: float, z: Tensor = z, step: Tensor = step) -> Tensor:
            return z + size * step

        for name, move in (("operators, mean coefficients", flow), ("mean difference", line)):
            guess = move(_size_for(move, z))
            found.setdefault(name, []).append(_score_faces(data, guess, rows, trait))
        found.setdefault("standing still", []).append(_score_faces(data, z, rows, trait))
    return {n: {k: float(np.mean([r[k] for r in rs])) for k in rs[0]} for n, rs in found.items()}


def _attribute_pairs(data: Vectors, trait: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    has = data.traits[data.train, trait] == 1
    without, having = (torch.from_numpy(data.train[part]) for part in (~has, has))
    a = without[torch.randperm(len(without), generator=chance)[: 2 * BATCH]]
    return a, having[torch.cdist(data.z[a], data.z[having]).argmin(1)]


def _size_for(move: Callable[[float], Tensor], z: Tensor) -> float:
    low, high = 0.0, 256.0
    for _ in range(20):
        middle = (low + high) / 2
        far = float(((move(middle) - z).norm(dim=1) / z.norm(dim=1)).mean())
        low, high = (middle, high) if far < ADDED_LENGTH else (low, middle)
    return low


def _score_faces(data: Vectors, guess: Tensor, rows: np.ndarray, trait: int) -> dict[str, float]:
    gallery = torch.from_numpy(data.test)
    distance = torch.cdist(guess, data.z[gallery])
    distance[torch.from_numpy(rows)[:, None] == gallery] = torch.inf
    found = data.traits[data.test[distance.argmin(1).numpy()]]
    others = [i for i in range(found.shape[1]) if i != trait]
    return {
        "has it": float(found[:, trait].mean()),
        "others kept": float((found[:, others] == data.traits[rows][:, others]).mean()),
    }
