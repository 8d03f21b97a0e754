"""What counts as the same image: labels, a classifier, or communities of the neighbour graph.

Where nobody has named classes, images that are near each other are joined by an edge. Where this
graph has dense parts with few edges between them, each part is a community, and a move that stays
inside it keeps identity. No label is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans2
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from transop.config import Settings
from transop.data import ImageDataset
from transop.errors import SettingsError, UserError

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder

Source = Literal["labels", "classifier", "graph"]
FEWEST_IMAGES = 60  # a graph of fewer has no parts worth the name
# Measured on MNIST and Fashion-MNIST: six communities keep less identity than ten, twenty too.
_FEWEST, _MOST = 8, 14
_COMPUTED = 21  # eigenvectors; asked for fewer, the iteration misses some of equal eigenvalues
_IMAGES_EACH = 20  # a community of fewer on average says little
_SMALLEST_SHARE = 0.005  # parts of the graph smaller than this do not count as communities
_SPREADING_STEPS = 2  # how far memberships spread over edges before the network learns them
_RESTARTS = 8  # of k-means, the best of which counts


@dataclass(frozen=True)
class Identity:
    """What counts as the same: a network whose opinion a move must not change.

    Attributes:
        source: where it comes from: ``"labels"`` (a classifier trained on them),
            ``"classifier"`` (the user's own) or ``"graph"`` (communities of the neighbour graph,
            found without labels).
        network: gives logits.
        domain: whether the network reads images or scaled latents.
        recipe: name and numbers that build the network again, or None.
        names: what its classes are called, or None if nobody has named them.
        facts: how it was found and how good it is, as plain values.
    """

    source: Source
    network: nn.Module
    domain: Literal["image", "latent"]
    recipe: dict[str, Any] | None = None
    names: tuple[str, ...] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        """Say in words whose opinion it is."""
        return describe_identity({"source": self.source, **self.facts})

    def install(self, model: ManifoldAutoencoder) -> None:
        """Let a model keep this identity from now on; it is stored with the model."""
        model.classifier = self.network.to(model.device)
        model.classifier_domain = self.domain
        model.classifier_recipe = self.recipe
        model.identity_facts = {"source": self.source, **self.facts}

    @classmethod
    def of(cls, model: ManifoldAutoencoder) -> Identity:
        """Read the identity a model was given, or say how it gets one."""
        if model.classifier is None:
            raise UserError("this model has no identity; train the phase 'classifier'")
        facts = dict(model.identity_facts or {"source": "labels"})
        source: Source = facts.pop("source")
        names = model.attribute_names or model.class_names
        if source == "graph":
            names = tuple(f"group {number + 1}" for number in range(facts["n_communities"]))
        domain, recipe = model.classifier_domain, model.classifier_recipe
        return cls(source, model.classifier, domain, recipe, names, facts)


def describe_identity(facts: dict[str, Any] | None) -> str:
    """Say in words whose opinion decides: the field ``identity`` of a model's ``config.json``."""
    if facts is None:
        return "none"
    if facts["source"] == "graph":
        return f"{facts['n_communities']} groups of the neighbour graph, found without labels"
    if facts["source"] == "classifier":
        return "your own classifier"
    return "a classifier trained on the labels"


def choose_source(settings: Settings, dataset: ImageDataset) -> Source | None:
    """Choose where identity comes from; None if nothing can tell identities apart.

    ``identity.source = "auto"`` takes the user's classifier if its weights are given, else labels
    or attributes if there are any, else the neighbour graph.
    """
    wanted, n_images = settings.identity.source, len(dataset.splits["train"])
    if wanted == "auto":
        if settings.classifier.weights is not None:
            return "classifier"
        if has_labels(dataset):
            return "labels"
        return "graph" if n_images >= FEWEST_IMAGES else None
    if wanted == "classifier" and settings.classifier.weights is None:
        raise SettingsError(
            "identity.source = 'classifier' needs your classifier: give classifier.factory and "
            "classifier.weights, or use 'auto'"
        )
    if wanted == "labels" and not has_labels(dataset):
        raise SettingsError(
            f"identity.source = 'labels', but data set '{dataset.meta.name}' has no labels that "
            "differ, and no attributes; use 'graph' or 'auto'"
        )
    if wanted == "graph" and n_images < FEWEST_IMAGES:
        raise SettingsError(
            f"identity.source = 'graph' needs at least {FEWEST_IMAGES} training images, data set "
            f"'{dataset.meta.name}' has {n_images}; use 'auto'"
        )
    return wanted


def has_labels(dataset: ImageDataset) -> bool:
    """Say whether labels or attributes tell the training images apart."""
    if dataset.labels is None:
        return dataset.attributes is not None
    training = dataset.labels[dataset.splits["train"]]
    return bool((training != training[0]).any()) or dataset.attributes is not None


@dataclass(frozen=True)
class Communities:
    """The parts of a neighbour graph.

    The shares say how much of every point's neighbourhood belongs to each community. Points in the
    middle of a community have a share near one, points on a border are divided. A large gap after
    the k-th eigenvalue says that there are k communities.
    """

    members: Int[np.ndarray, " n"]  # the community of every point
    shares: Float[np.ndarray, "n k"]  # rows sum to one
    eigenvalues: Float[np.ndarray, " e"]  # of the normalised adjacency matrix, largest first

    @property
    def n_communities(self) -> int:
        """How many there are."""
        return int(self.shares.shape[1])


def neighbour_graph(*tables: Int[Tensor, "n k"]) -> sparse.csr_matrix:
    """Join every point with its neighbours, in both directions.

    Args:
        *tables: row numbers of every point's neighbours, -1 where there is none. Edges that are
            in several tables weigh as much more.
    """
    if not tables:
        raise UserError("a neighbour graph needs at least one table of neighbours")
    graphs = []
    for table in tables:
        starts, columns = (table >= 0).nonzero(as_tuple=True)
        edges = (starts.cpu().numpy(), table[starts, columns].cpu().numpy())
        graph = sparse.csr_matrix((np.ones(len(starts)), edges), shape=(len(table), len(table)))
        graphs.append(graph.maximum(graph.T))
    return sum(graphs)


def find_communities(
    graph: sparse.csr_matrix, n_communities: int | None = None, *, seed: int = 0
) -> Communities:
    """Divide a graph into communities by the leading eigenvectors of its normalised Laplacian.

    The eigenvectors of D^(-1/2) W D^(-1/2) with the largest eigenvalues are those of the
    normalised Laplacian with the smallest. Their rows, scaled to length one, are grouped by
    k-means. Without a number of communities, the largest gap between eigenvalues gives it.
    """
    n = graph.shape[0]
    if n_communities is not None and not 2 <= n_communities < n:
        raise UserError(
            f"n_communities = {n_communities} is not possible with {n} images; use 2 to {n - 1}"
        )
    large = _large_parts(graph)
    core = graph[large][:, large]
    most = n_communities or max(2, min(_MOST, len(large) // _IMAGES_EACH))
    n_vectors = min(max(most + 1, _COMPUTED), len(large) - 2)
    values, vectors = _leading_eigenvectors(core, n_vectors, seed)
    k = n_communities or _largest_gap(values[: most + 1])
    rows = vectors[:, :k]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    members = np.full(n, -1)
    members[large] = _group(rows, k, seed)
    shares = _spread(graph, members, k)
    return Communities(shares.argmax(1), shares, values)


def _large_parts(graph: sparse.csr_matrix) -> Int[np.ndarray, " m"]:
    """List the points of all connected parts that are large enough to count."""
    n_parts, part = connected_components(graph, directed=False)
    sizes = np.bincount(part, minlength=n_parts)
    counted = sizes >= max(3, _SMALLEST_SHARE * len(part))
    if not counted.any():
        counted = sizes == sizes.max()
    return np.flatnonzero(counted[part])


def _leading_eigenvectors(
    graph: sparse.csr_matrix, n_vectors: int, seed: int
) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, "n e"]]:
    """Give the largest eigenvalues of the normalised adjacency matrix with their vectors."""
    degrees = np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)
    root = sparse.diags(degrees**-0.5)
    first = np.random.default_rng(seed).standard_normal(graph.shape[0])
    values, vectors = eigsh(root @ graph @ root, k=max(1, n_vectors), v0=first)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _largest_gap(values: Float[np.ndarray, " e"]) -> int:
    """Choose the number of communities after which eigenvalues fall most, not too few of them."""
    fewest = min(_FEWEST, len(values) - 1)
    return int(np.argmax(values[fewest - 1 : -1] - values[fewest:])) + fewest


def _group(rows: Float[np.ndarray, "n k"], k: int, seed: int) -> Int[np.ndarray, " n"]:
    """Group rows by k-means, the best of several starts."""
    best, named = np.inf, np.zeros(len(rows), dtype=np.int64)
    for start in range(_RESTARTS):
        centres, labels = kmeans2(rows, k, minit="++", seed=seed + start)
        error = float(((rows - centres[labels]) ** 2).sum())
        if error < best:
            best, named = error, labels.astype(np.int64)
    return named


def _spread(
    graph: sparse.csr_matrix, members: Int[np.ndarray, " n"], k: int
) -> Float[np.ndarray, "n k"]:
    """Average memberships over neighbourhoods; points without any get equal shares."""
    shares = np.zeros((len(members), k))
    known = members >= 0
    shares[np.flatnonzero(known), members[known]] = 1
    walk = graph + sparse.identity(len(members), format="csr")
    walk = sparse.diags(1 / np.asarray(walk.sum(1)).ravel()) @ walk
    for _ in range(_SPREADING_STEPS):
        shares = walk @ shares
    total = shares.sum(1, keepdims=True)
    return np.where(total > 0, shares / np.maximum(total, 1e-12), 1 / k)


def agreement(
    communities: Int[np.ndarray, " n"], labels: Int[np.ndarray, " n"]
) -> dict[str, float]:
    """Compare two ways to group the same images.

    ``purity`` is the share of images whose community is named after their label, when every
    community is named after its most frequent label. ``adjusted_rand`` is the share of pairs of
    images on which both groupings agree, corrected for chance: 0 for unrelated groupings, 1 for
    equal ones.
    """
    counts = np.zeros((int(communities.max()) + 1, int(labels.max()) + 1))
    np.add.at(counts, (communities, labels), 1)
    # Pairs of images that are together: in both groupings, in either of them, and all pairs.
    tables = (counts, counts.sum(1), counts.sum(0), counts.sum(keepdims=True))
    both, first, second, pairs = (float((n * (n - 1) / 2).sum()) for n in tables)
    chance, most = first * second / max(1.0, pairs), (first + second) / 2
    return {
        "purity": float(counts.max(1).sum() / counts.sum()),
        "adjusted_rand": (both - chance) / (most - chance) if most != chance else 1.0,
    }
