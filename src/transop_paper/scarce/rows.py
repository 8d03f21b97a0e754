"""The rows of the table: which augmentation, and which labels it was allowed to see.

``name@key=value,key=value`` is a row with some of its numbers changed, for studies and for
choosing settings on validation images.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transop.errors import UserError

Labels = Literal["none", "100", "all"]


@dataclass(frozen=True)
class Unlabelled:
    """How a row uses the training images without their labels.

    Attributes:
        method: ``"graph"`` spreads the labels over the neighbour graph (Poisson learning),
            ``"label-propagation"`` too (scikit-learn); ``"consistency"`` trains LeNet-5.
        features: what makes two images neighbours in the graph.
        opinion: what is known of all images before training: the ``"graph"``'s opinion, or that
            of a first ``"network"`` trained on the labelled images.
        moves: changed copies are moved along ``"operators"``, or as far in random directions
            (``"noise"``) or along straight ``"lines"`` to neighbours.
        residual: share of the detail lost by the autoencoder that is added back to moved copies.
        adversarial: share of unlabelled images that are moved, instead, in the direction of the
            operators that changes the network's opinion most.
        elastic: changed copies are distorted elastically, after moves.
        teacher, opinion_share, believe, balanced, loss, weight: as in
            `transop.semi_supervised.Consistency`, ``believe`` being its threshold.
    """

    method: Literal["graph", "label-propagation", "consistency"] = "consistency"
    features: Literal["latent", "pixel"] = "latent"
    opinion: Literal["graph", "network"] | None = None
    moves: Literal["operators", "noise", "lines"] | None = None
    residual: float = 0.0
    adversarial: float = 0.0
    elastic: bool = True
    teacher: Literal["network", "average"] | None = None
    opinion_share: float = 0.3
    believe: float = 0.95
    balanced: bool = False
    loss: Literal["class", "probabilities", "squared"] = "class"
    weight: float = 1.0

    @property
    def needs_model(self) -> bool:
        """Whether latents or operators of a trained run are needed."""
        graph = self.method != "consistency" or self.opinion == "graph"
        return self.moves is not None or (graph and self.features == "latent")


@dataclass(frozen=True)
class Row:
    """An augmentation, in the order it is applied: learned moves, then a fixed augmentation.

    Attributes:
        name: what it is called on the command line and in files.
        title: what it is called in the table.
        moves: where the scales of learned moves come from; None for no learned moves.
        labels: what classifier, coefficient encoder and guard were trained from, where the row
            has them: nothing but images, the same 100 labels, or all labels of the training
            split.
        multiplier: factor on the scales.
        n_steps: length of the random walk.
        threshold: probability a guard insists on; None for no guard.
        fixed: the fixed augmentation that follows, if any.
        n, m: number and magnitude of RandAugment's operations.
        alpha, sigma: strength and smoothness of the elastic distortion, in pixels; also of
            copies of unlabelled images.
        unlabelled: how unlabelled training images are used; None for not at all.
        paper: mean and deviation of the test accuracy in the paper, if it has this row.
    """

    name: str
    title: str
    moves: Literal["prior", "encoder"] | None = None
    labels: Labels = "100"
    multiplier: float = 1.0
    n_steps: int = 1
    threshold: float | None = None
    fixed: Literal["randaugment", "elastic"] | None = None
    n: int = 2
    m: int = 6
    alpha: float = 34.0
    sigma: float = 4.0
    unlabelled: Unlabelled | None = None
    paper: tuple[float, float] | None = None

    @property
    def needs_model(self) -> bool:
        """Whether a trained run is needed."""
        if self.unlabelled is not None:
            return self.unlabelled.needs_model
        return self.moves is not None

    @property
    def needs_own_identity(self) -> bool:
        """Whether classifier and encoder must be trained from the labels of each seed."""
        return self.labels == "100" and self.moves == "encoder"

    def labels_used(self) -> str:
        """Say in words which labels went into the row."""
        if self.unlabelled is not None:
            return "the 100 labels, all training images without labels"
        if self.labels != "all" or self.moves in (None, "prior"):
            return "the 100 labels only"
        return "all training labels, for the encoder" + (" and the guard" if self.threshold else "")


_MOVES: dict[str, dict[str, Any]] = {
    "transport-encoder": {
        "title": "Transport, coefficient encoder",
        "labels": "all",
        "paper": (93.57, 0.67),
    },
    "transport-guarded": {
        "title": "Transport, encoder and guard",
        "labels": "all",
        "n_steps": 10,
        "threshold": 0.8,
    },
    "transport-graph": {"title": "Transport, encoder without labels", "labels": "none"},
    "transport-graph-guarded": {
        "title": "Transport, encoder and guard without labels",
        "labels": "none",
        "multiplier": 1.5,
        "threshold": 0.5,
    },
    "transport-100": {"title": "Transport, encoder from the 100 labels"},
    "transport-100-guarded": {
        "title": "Transport, encoder and guard from the 100 labels",
        "multiplier": 1.5,
        "threshold": 0.8,
    },
}

ENTRY = "semi-transport"  # the row that rivals and ablations are compared with

# Our entry, and the identical training with one ingredient exchanged or left out.
_ENTRY = Unlabelled(
    opinion="graph", teacher="average", moves="operators", believe=0.8, balanced=True
)
_ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    ENTRY: ("Entry: graph, moves, elastic", {}),
    "semi-adversarial": ("Entry, a fifth of the moves against the network", {"adversarial": 0.2}),
    "semi-transport-only": ("Entry without elastic distortion", {"elastic": False}),
    "semi-elastic": ("Entry without moves (elastic only)", {"moves": None}),
    "semi-plain": ("Entry without moves and elastic", {"moves": None, "elastic": False}),
    "semi-noise": ("Entry, latent noise of equal length for moves", {"moves": "noise"}),
    "semi-lines": ("Entry, straight lines to neighbours for moves", {"moves": "lines"}),
    "semi-graph-only": ("Entry, labels from the graph alone", {"teacher": None}),
    "semi-no-graph": ("Entry without moves and graph", {"opinion": None, "moves": None}),
}
_RIVALS: dict[str, tuple[str, Unlabelled]] = {
    "poisson": ("Poisson learning, graph of latents", Unlabelled("graph")),
    "poisson-pixels": ("Poisson learning, graph of pixels", Unlabelled("graph", "pixel")),
    "label-propagation": ("Label propagation, graph of latents", Unlabelled("label-propagation")),
    "self-training": (
        "Self-training, elastic",
        Unlabelled(opinion="network", believe=0.9),
    ),
    "mean-teacher": (
        "Mean teacher, elastic",
        Unlabelled(teacher="average", loss="squared", weight=3.0),
    ),
    "fixmatch": ("FixMatch, elastic", Unlabelled(teacher="network")),
    "fixmatch-balanced": (
        "FixMatch, elastic, balanced classes",
        Unlabelled(teacher="network", balanced=True),
    ),
}

_BASE: tuple[Row, ...] = (
    Row("none", "No augmentation", paper=(81.49, 3.35)),
    Row(
        "randaugment-paper",
        "RandAugment, N=2 M=6 (paper)",
        fixed="randaugment",
        paper=(87.94, 3.34),
    ),
    Row("randaugment", "RandAugment, N=2 M=10", fixed="randaugment", m=10),
    # The paper does not state its strength; kornia's defaults are one reading of it.
    Row(
        "elastic-paper",
        "Elastic distortion, library default (paper)",
        fixed="elastic",
        alpha=14.0,
        sigma=32.0,
        paper=(80.40, 4.02),
    ),
    Row("elastic", "Elastic distortion, strong", fixed="elastic"),
    Row("transport-prior", "Transport, fixed prior", moves="prior", paper=(70.35, 1.70)),
    *(Row(name, moves="encoder", **settings) for name, settings in _MOVES.items()),
    *(
        Row(
            f"{name}-elastic",
            moves="encoder",
            fixed="elastic",
            **{**settings, "title": f"{settings['title']}, then elastic", "paper": None},
        )
        for name, settings in _MOVES.items()
    ),
    *(Row(name, title, unlabelled=settings) for name, (title, settings) in _RIVALS.items()),
    *(
        Row(
            name,
            title,
            threshold=0.8,
            unlabelled=dataclasses.replace(_ENTRY, **changes),
        )
        for name, (title, changes) in _ABLATIONS.items()
    ),
)

# Names that stand for several rows.
GROUPS: dict[str, tuple[str, ...]] = {
    "augmentations": tuple(row.name for row in _BASE if row.unlabelled is None),
    "rivals": tuple(_RIVALS),
    "ablations": tuple(_ABLATIONS),
}

# Where a data set wants other strengths; chosen on its validation images.
_ELASTIC: dict[str, dict[str, Any]] = {"fashion-mnist": {"alpha": 24.0}}
_GUARD: dict[str, dict[str, Any]] = {"fashion-mnist": {"n_steps": 4, "threshold": 0.5}}

_SEMI_MOVES: dict[str, dict[str, Any]] = {"fashion-mnist": {"multiplier": 0.5}}
_SEMI: dict[str, dict[str, Any]] = {
    "fashion-mnist": {
        "believe": 0.0,
        "loss": "probabilities",
        "opinion_share": 0.5,
        "residual": 1.0,
    }
}


def known_rows(dataset: str) -> dict[str, Row]:
    """List the rows of the table by name, with the settings chosen for a data set."""
    rows = {}
    for row in _BASE:
        changes: dict[str, Any] = {}
        elastic = row.fixed == "elastic" or row.unlabelled is not None
        if elastic and row.name != "elastic-paper":
            changes |= _ELASTIC.get(dataset, {})
        if row.threshold is not None and row.labels == "all":
            changes |= _GUARD.get(dataset, {})
        if row.name in _ABLATIONS and row.unlabelled is not None:
            changes |= _SEMI_MOVES.get(dataset, {})
            changes["unlabelled"] = dataclasses.replace(row.unlabelled, **_SEMI.get(dataset, {}))
        if dataset != "mnist":
            changes["paper"] = None  # the paper has this table for MNIST only
        rows[row.name] = dataclasses.replace(row, **changes)
    return rows


def find_rows(names: Sequence[str], dataset: str) -> list[Row]:
    """Look rows up by name, ``name@key=value,...`` and groups included; no name means all rows."""
    known = known_rows(dataset)
    single = [row for name in names for row in GROUPS.get(name, (name,))]
    return [_find(name, known) for name in single] if names else list(known.values())


def _find(name: str, known: dict[str, Row]) -> Row:
    base, _, changes = name.partition("@")
    if base not in known:
        choices = ", ".join([*known, *GROUPS])
        raise UserError(f"row '{base}' does not exist; choose from {choices}")
    row = known[base]
    if not changes:
        return row
    values: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    kinds = _CHANGEABLE | (_CHANGEABLE_UNLABELLED if row.unlabelled is not None else {})
    for change in changes.split(","):
        key, equals, text = change.partition("=")
        if key not in kinds or not equals:
            raise UserError(
                f"row '{name}': '{change}' is not key=value with a key of {', '.join(kinds)}"
            )
        try:
            (inner if key in _CHANGEABLE_UNLABELLED else values)[key] = kinds[key](text)
        except ValueError:
            raise UserError(f"row '{name}': '{text}' is no value for {key}") from None
    if inner and row.unlabelled is not None:
        values["unlabelled"] = dataclasses.replace(row.unlabelled, **inner)
    title = f"{row.title} ({changes.replace(',', ', ')})"
    return dataclasses.replace(row, name=name, title=title, paper=None, **values)


def _number_or_none(text: str) -> float | None:
    return None if text == "none" else float(text)


_CHANGEABLE: dict[str, Any] = {
    "multiplier": float,
    "n_steps": int,
    "threshold": _number_or_none,
    "n": int,
    "m": int,
    "alpha": float,
    "sigma": float,
}


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


_CHANGEABLE_UNLABELLED: dict[str, Any] = {
    "residual": float,
    "adversarial": float,
    "opinion_share": float,
    "believe": float,
    "balanced": _yes_or_no,
    "weight": float,
}
