"""What `embeddings_study.py` measures: moves of equal length, few labels, paths, retrieval.

Every function takes features that are centred and have mean length one, and gives plain numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix, triu
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

import transop
from transop.evaluation import far_scale
from transop.identity import find_communities, neighbour_graph
from transop.networks import CoefficientEncoder
from transop.operators import laplace_kl, sample_moves, transport, transport_path
from transop.semi_supervised import spread_labels, weigh_neighbours

LENGTHS = (0.2, 0.4, 0.8, 1.6)
TIMES = (0.5, 1.0, 1.5, 2.0, 3.0)
COPIES, TESTED, ASKED, WATCHED, DRAWS = 20, 600, 3000, 10, 4
PRIOR_WEIGHT, JUDGE_STEPS, SCALE_STEPS, BATCH = 0.3, 300, 200, 250

Mover = Callable[[Tensor, float, torch.Generator], Tensor]


@dataclass(frozen=True)
class Vectors:
    """Features, what may not change (one column per trait), and two parts without near twins."""

    z: Tensor
    traits: np.ndarray
    train: np.ndarray
    test: np.ndarray
    groups: np.ndarray  # objects or people
    n_labels: int  # of every class, where labels are few
    angle: np.ndarray | None = None

    def points(self) -> Tensor:
        """Give the held-out rows that are moved."""
        return self.z[self.test[:TESTED]]


def local_scales(z: Tensor, near: Tensor, operators: Tensor, seed: int) -> nn.Module:
    """Learn how far each operator may go at a point before its part of the graph changes.

    Parts of the neighbour graph stand in for classes, so no label is read. The loss is [ENCODER]:
    a moved point keeps its part, and scales stay close to a prior that reaches everything.
    """
    parts = torch.from_numpy(find_communities(neighbour_graph(near), seed=seed).shares).float()
    draw, (n, d) = torch.Generator().manual_seed(seed), z.shape
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        judge = nn.Sequential(nn.Linear(d, 256), nn.ReLU(), nn.Linear(256, parts.shape[1]))
        prior = far_scale(operators, z)
        encoder = CoefficientEncoder(d, len(operators), hidden=(256,), scale_multiplier=prior / 4)
    optimiser = torch.optim.Adam(judge.parameters(), 3e-3)
    for _ in range(JUDGE_STEPS):
        rows = torch.randint(n, (BATCH,), generator=draw)
        optimiser.zero_grad()
        cross_entropy(judge(z[rows]), parts[rows]).backward()
        optimiser.step()
    judge.requires_grad_(False)
    optimiser = torch.optim.Adam(encoder.parameters(), 3e-3)
    for _ in range(SCALE_STEPS):
        points = z[torch.randint(n, (BATCH,), generator=draw)]
        scales = encoder(points)
        moved, _ = sample_moves(operators, points, scales, generator=draw)
        before, after = (log_softmax(judge(p), 1) for p in (points, moved))
        change = kl_div(after, before, reduction="batchmean", log_target=True)
        pull = laplace_kl(scales, torch.full_like(scales, prior)).mean()
        optimiser.zero_grad()
        (change + PRIOR_WEIGHT * pull).backward()
        optimiser.step()
    return encoder.requires_grad_(False)


def movers(
    z: Tensor, near: Tensor, learned: transop.LearnedOperators, seed: int
) -> dict[str, Mover]:
    """Offer six ways of moving points, each with a strength."""
    psi, weight = learned.operators, learned.sparsity_weight
    rows = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[:BATCH]
    found = transop.infer_coefficients(psi, z[rows], z[near[rows, -1]], sparsity_weight=weight)
    scale = found.coefficients.abs().mean(0)
    encoder = local_scales(z, near, psi, seed)
    steps = (z[near] - z[:, None]).flatten(0, 1)
    roots = [
        torch.linalg.cholesky(torch.cov(rows.T) + 1e-6 * torch.eye(z.shape[1]))
        for rows in (z, steps)
    ]

    def one_scale(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        scales = (strength * scale).expand(len(points), -1)
        return sample_moves(psi, points, scales, generator=source)[0]

    def own_scales(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return sample_moves(psi, points, strength * encoder(points), generator=source)[0]

    def isotropic(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return points + strength * torch.randn(points.shape, generator=source)

    def covariance(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return points + strength * torch.randn(points.shape, generator=source) @ roots[0].T

    def differences(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        return points + strength * torch.randn(points.shape, generator=source) @ roots[1].T

    def to_neighbours(points: Tensor, strength: float, source: torch.Generator) -> Tensor:
        distance = torch.cdist(points, z)
        distance[distance < 5e-3] = torch.inf  # the point itself, up to rounding
        closest = distance.topk(5, largest=False).indices
        pick = torch.randint(5, (len(points), 1), generator=source)
        return points + strength * (z[closest.gather(1, pick)[:, 0]] - points)

    return {
        "operators, one scale each": one_scale,
        "operators, local scales": own_scales,
        "isotropic noise": isotropic,
        "noise with the data's covariance": covariance,
        "noise with the covariance of neighbours' differences": differences,
        "towards a neighbour": to_neighbours,
    }


class Moves:
    """Ways of moving points, each with the strengths that give moves of equal mean length."""

    def __init__(self, ways: dict[str, Mover], points: Tensor, seed: int) -> None:
        self.ways, self._seed = ways, seed
        self._strengths = {
            (name, length): self._strength(mover, points[:BATCH], length)
            for name, mover in ways.items()
            for length in LENGTHS
        }

    def copies(self, name: str, points: Tensor, length: float, n_copies: int) -> list[Tensor]:
        """Move points several times, by a mean relative length."""
        source, strength = self._source(), self._strengths[name, length]
        return [self.ways[name](points, strength, source) for _ in range(n_copies)]

    def _source(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    def _strength(self, mover: Mover, points: Tensor, length: float) -> float:
        """Find the strength by bisection."""
        low, high = 0.0, 64.0
        for _ in range(15):
            middle = (low + high) / 2
            moved = mover(points, middle, self._source())
            far = float(((moved - points).norm(dim=1) / points.norm(dim=1)).mean())
            low, high = (middle, high) if far < length else (low, middle)
        return low


def nearest(points: Tensor, rows: Tensor) -> tuple[np.ndarray, Tensor]:
    """Find the nearest row of every point, and how far it is."""
    found = torch.cdist(points, rows).min(1)
    return found.indices.numpy(), found.values


def kept_identity(data: Vectors, moves: Moves) -> dict[str, dict[str, float]]:
    """Ask linear judges before and after a move, and measure how far from the data it ends."""
    train, points = data.z[data.train], data.points()
    judges = [
        LogisticRegression(max_iter=300).fit(train.numpy(), trait)
        for trait in data.traits[data.train].T
    ]
    before = [judge.predict(points.numpy()) for judge in judges]
    usual = nearest(points, train)[1].mean()
    found: dict[str, dict[str, float]] = {}
    for name in moves.ways:
        row = found[name] = {}
        for length in LENGTHS:
            moved = moves.copies(name, points, length, 1)[0]
            after = [judge.predict(moved.numpy()) for judge in judges]
            row[f"linear {length}"] = float(np.mean(np.equal(before, after)))
            row[f"distance {length}"] = float(nearest(moved, train)[1].mean() / usual)
    return found


def few_labels(data: Vectors, moves: Moves, seed: int) -> dict[str, dict[str, float]]:
    """Train a linear head on few labels with moved copies: accuracy, agreement, and doubt.

    Accuracy is balanced over classes, and averaged over traits and draws of the labels. Agreement
    is the share of pairs of held-out rows of one object or person that get one answer. Both are
    given as the difference to a head without moved copies and the same labels. Doubt is how well
    wrong answers are told from right ones by the share of moves (length 0.4) that keep the answer
    of the head without augmentation (area under the ROC curve); without moves, by its margin.
    """
    chance = np.random.default_rng(seed)
    same = _same_group(data, chance)
    views = {name: moves.copies(name, data.points(), 0.4, WATCHED) for name in moves.ways}
    # Training rows have nearer neighbours, so their strengths are others.
    moves = Moves(moves.ways, data.z[chance.permutation(data.train)[:BATCH]], seed)
    found = [
        _few_labels_of(data, trait, moves, views, same, chance)
        for trait in data.traits.T
        for _ in range(max(1, DRAWS // data.traits.shape[1]))
    ]
    return {
        name: {key: float(np.nanmean([one[name][key] for one in found])) for key in row}
        for name, row in found[0].items()
    }


def _few_labels_of(
    data: Vectors,
    trait: np.ndarray,
    moves: Moves,
    views: dict[str, list[Tensor]],
    same: tuple[np.ndarray, np.ndarray],
    chance: np.random.Generator,
) -> dict[str, dict[str, float]]:
    rows = choose_rows(trait, data.train, data.n_labels, chance)
    asked = data.test[:ASKED]
    few, test, truth = data.z[rows], data.z[asked].numpy(), trait[asked]
    plain = _head(few, trait[rows])
    told, watched = plain.predict(test), slice(0, TESTED)
    right = (told == truth)[watched]
    sure = np.sort(plain.predict_proba(test[watched]), 1)
    found = {
        "none": {
            "accuracy": float(balanced_accuracy_score(truth, told)),
            "agreement": _agree(told, same),
            "doubt": _doubt(right, sure[:, -1] - sure[:, -2]),
        }
    }
    for name in moves.ways:
        kept = [plain.predict(view.numpy()) == told[watched] for view in views[name]]
        row = found[name] = {"doubt": _doubt(right, np.mean(kept, 0))}
        for length in LENGTHS:
            copies = [few, *moves.copies(name, few, length, COPIES)]
            head = _head(torch.cat(copies), np.tile(trait[rows], len(copies)))
            answers = head.predict(test)
            accuracy = float(balanced_accuracy_score(truth, answers))
            row[f"gain {length}"] = accuracy - found["none"]["accuracy"]
            row[f"agreement {length}"] = _agree(answers, same) - found["none"]["agreement"]
    return found


def choose_rows(
    trait: np.ndarray, rows: np.ndarray, n_each: int, chance: np.random.Generator
) -> np.ndarray:
    """Choose rows at random, as many of every class."""
    classes = np.unique(trait[rows])
    chosen = [chance.choice(rows[trait[rows] == c], n_each, replace=False) for c in classes]
    return np.concatenate(chosen)


def _head(rows: Tensor, labels: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=10, max_iter=300).fit(rows.numpy(), labels)


def _same_group(data: Vectors, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pair every held-out row with another one of its object or person."""
    groups, first, second = data.groups[data.test[:ASKED]], [], []
    for group in np.unique(groups):
        members = chance.permutation(np.flatnonzero(groups == group))
        if len(members) > 1:
            first.append(members)
            second.append(np.roll(members, 1))
    return np.concatenate(first), np.concatenate(second)


def _agree(answers: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> float:
    return float((answers[pairs[0]] == answers[pairs[1]]).mean())


def _doubt(right: np.ndarray, sure: np.ndarray) -> float:
    return float(roc_auc_score(right, sure)) if 0 < right.mean() < 1 else float("nan")


def spread(data: Vectors, learned: transop.LearnedOperators, seed: int) -> dict[str, float]:
    """Name rows from few labels, over graphs of straight and of operator distances."""
    chance = np.random.default_rng(seed)
    rows = np.sort(chance.permutation(data.train)[:TESTED])
    z = data.z[torch.from_numpy(rows)]
    graphs = {"graph of distances": weigh_neighbours(z), "graph of paths": _path_graph(z, learned)}
    found: dict[str, list[float]] = {}
    for trait in data.traits.T:
        labels = trait[rows]
        given = choose_rows(labels, np.arange(len(rows)), data.n_labels, chance)
        answers = {
            name: spread_labels(graph, given, labels[given], int(labels.max()) + 1).argmax(1)
            for name, graph in graphs.items()
        }
        answers["linear head"] = _head(z[given], labels[given]).predict(z.numpy())
        for name, answer in answers.items():
            found.setdefault(name, []).append(balanced_accuracy_score(labels, answer))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _path_graph(z: Tensor, learned: transop.LearnedOperators) -> csr_matrix:
    """Join the same neighbours, weighed by the objective that their path reaches."""
    graph = weigh_neighbours(z)
    edges = triu(graph).tocoo()
    a, b = (torch.from_numpy(side).long() for side in (edges.row, edges.col))
    weight = learned.sparsity_weight
    paths = transop.infer_coefficients(learned.operators, z[a], z[b], sparsity_weight=weight)
    cost = (-paths.objective / paths.objective.median()).exp().double().numpy()
    half = csr_matrix((cost, (edges.row, edges.col)), shape=graph.shape)
    return half + half.T


def along_paths(data: Vectors, learned: transop.LearnedOperators) -> dict[str, dict[str, float]]:
    """Join held-out neighbours, go on beyond, and look at the nearest training row.

    The line ends where the operators' path ends at t = 1, so both leave the same residual. Beyond,
    a path that moves less would stay in the data for that reason alone. A second line takes that
    advantage away: it has moved as far as the path at every t.
    """
    train, z = data.z[data.train], data.points()
    partner = torch.cdist(z, z).topk(6, largest=False).indices[:, 5]
    psi, weight = learned.operators, learned.sparsity_weight
    found = transop.infer_coefficients(psi, z, z[partner], sparsity_weight=weight / 10)
    curve = transport_path(psi, found.coefficients, z, torch.tensor(TIMES))
    end = transport(psi, found.coefficients, z)
    usual, truth = nearest(z, train)[1].mean(), data.traits[data.test[:TESTED]]
    result: dict[str, dict[str, float]] = {}
    for i, t in enumerate(TIMES):
        for name, there in _lines(z, end, curve[:, i], t).items():
            rows, distance = nearest(there, train)
            row = result.setdefault(name, {})
            row[f"kept {t}"] = float((data.traits[data.train][rows] == truth).mean())
            row[f"distance {t}"] = float(distance.mean() / usual)
            row[f"length {t}"] = float(((there - z).norm(dim=1) / z.norm(dim=1)).mean())
    result["path of operators"]["residual"] = float(found.residual.mean())
    return result


def _lines(z: Tensor, end: Tensor, there: Tensor, t: float) -> dict[str, Tensor]:
    """Give the point of a path, and those of two straight lines to compare it with."""
    direction = torch.nn.functional.normalize(end - z, dim=1)
    return {
        "path of operators": there,
        "straight line": z + t * (end - z),
        "straight line, moved as far": z + direction * (there - z).norm(dim=1, keepdim=True),
    }
