"""The rows of the table: which augmentation, and which labels it was allowed to see.

``name@key=value,key=value`` is a row with some of its numbers changed, for studies and for
choosing settings on validation images.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from transop.errors import UserError

Labels = Literal["none", "100", "all"]


@dataclass(frozen=True)
class Unlabelled:
    """How a row uses the training images without their labels."""

    # "graph" spreads the labels over the neighbour graph (Poisson learning); "consistency"
    # trains LeNet-5
    method: Literal["graph", "consistency"] = "consistency"
    # what makes two images neighbours in the graph; "joint": latents, pixels and perceptual
    # features together
    features: Literal["joint", "latent", "pixel"] = "joint"
    # what is known of all images before training: the ``"graph"``'s opinion, or that of a
    # first ``"network"`` trained on the labelled images
    opinion: Literal["graph", "network"] | None = None
    # changed copies are moved along ``"operators"``, or as far along those that the network likes
    # least at this step (``"worst"``), in random directions (``"noise"``) or along straight
    # ``"lines"`` to neighbours
    moves: Literal["operators", "worst", "noise", "lines"] | None = None
    # share of the detail lost by the autoencoder that is added back to moved copies
    residual: float = 0.0
    elastic: bool = True  # changed copies are distorted elastically, after moves
    # as in `transop.semi_supervised.Consistency`, ``believe`` being its threshold
    teacher: Literal["network", "average"] | None = None
    opinion_share: float = 0.3
    believe: float = 0.95
    balanced: bool = False
    loss: Literal["class", "probabilities", "squared"] = "class"
    weight: float = 1.0
    learning_rate: float = 1e-3
    # share of the graph in the final log-probabilities of an image; the rest is the network's
    vote: float = 0.0

    @property
    def needs_model(self) -> bool:
        """Whether latents or operators of a trained run are needed."""
        graph = self.method != "consistency" or self.opinion == "graph"
        return self.moves is not None or (graph and self.features != "pixel")


@dataclass(frozen=True)
class Row:
    """An augmentation, in the order it is applied: learned moves, then a fixed augmentation."""

    name: str  # what it is called on the command line and in files
    title: str  # what it is called in the table
    # where the scales of learned moves come from; None for no learned moves; "noise" goes as far
    # as the encoder's moves, in random latent directions: their control
    moves: Literal["prior", "encoder", "noise"] | None = None
    # the labels that classifier, coefficient encoder and guard were trained from: none, the same
    # 100, or all of the training split
    labels: Labels = "100"
    multiplier: float = 1.0  # factor on the scales
    n_steps: int = 1  # length of the random walk
    threshold: float | None = None  # probability a guard insists on; None for no guard
    # the fixed augmentation that follows, if any
    fixed: Literal["randaugment", "elastic"] | None = None
    n: int = 2  # number and magnitude of RandAugment's operations
    m: int = 6
    # strength and smoothness of the elastic distortion, in pixels; also of copies of
    # unlabelled images
    alpha: float = 34.0
    sigma: float = 4.0
    # how unlabelled training images are used; None for not at all
    unlabelled: Unlabelled | None = None
    # mean and deviation of the test accuracy in the paper, if it has this row
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
        return self.labels == "100" and self.moves in ("encoder", "noise")

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

# Rows of the same settings whose moves go in random directions.
_NOISE = {
    "transport-encoder": "Noise as long as the encoder's moves",
    "transport-guarded": "Noise as long, same guard",
    "transport-graph-guarded": "Noise as long as moves without labels, same guard",
    "transport-100": "Noise as long as moves from the 100 labels",
    "transport-100-guarded": "Noise as long as moves from the 100 labels, same guard",
}


def _then_elastic(row: Row) -> Row:
    """Follow moves by elastic distortion."""
    name, title = f"{row.name}-elastic", f"{row.title}, then elastic"
    return dataclasses.replace(row, name=name, title=title, fixed="elastic", paper=None)


_CONTROLS = [
    Row(
        name.replace("transport", "noise"),
        moves="noise",
        **{**_MOVES[name], "title": title, "paper": None},
    )
    for name, title in _NOISE.items()
]

ENTRY = "entry"  # the row that rivals and ablations are compared with

# Our entry, and the identical training with one ingredient exchanged, added or left out.
_RATE = 6e-3
_ENTRY = Unlabelled(
    opinion="graph",
    teacher="average",
    opinion_share=0.5,
    believe=0.0,
    balanced=True,
    weight=3.0,
    learning_rate=_RATE,
    vote=0.5,
)
_ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    ENTRY: ("Entry: joint graph and mean teacher", {}),
    "entry-elastic": ("Entry, elastic distortion only", {"moves": None, "elastic": True}),
    "entry-plain": ("Entry, images as they are", {"moves": None, "elastic": False}),
    "entry-transport": ("Entry with operator moves", {"moves": "operators"}),
    "entry-worst": ("Entry with the operator moves it likes least", {"moves": "worst"}),
    "entry-noise": ("Entry with latent noise of equal length", {"moves": "noise"}),
    "entry-lines": ("Entry with straight lines to neighbours", {"moves": "lines"}),
    "entry-network": ("Entry, the network alone", {"vote": 0.0}),
    "entry-latents": ("Entry, graph of latents alone", {"features": "latent"}),
    "entry-graph-only": ("Entry, labels from the graph alone", {"teacher": None}),
    "entry-no-graph": (
        "Entry, elastic distortion only, without graph",
        {"opinion": None, "moves": None, "elastic": True, "vote": 0.0},
    ),
}
_RIVALS: dict[str, tuple[str, Unlabelled]] = {
    "poisson": ("Poisson learning, graph of latents", Unlabelled("graph", "latent")),
    "poisson-pixels": ("Poisson learning, graph of pixels", Unlabelled("graph", "pixel")),
    "poisson-joint": ("Poisson learning, joint graph", Unlabelled("graph")),
    "self-training": (
        "Self-training, elastic",
        Unlabelled(opinion="network", believe=0.9, learning_rate=_RATE),
    ),
    "mean-teacher": (
        "Mean teacher, elastic",
        Unlabelled(teacher="average", loss="squared", weight=3.0, learning_rate=_RATE),
    ),
    "fixmatch": (
        "FixMatch, elastic",
        Unlabelled(teacher="network", balanced=True, learning_rate=_RATE),
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
    *(_then_elastic(Row(name, moves="encoder", **settings)) for name, settings in _MOVES.items()),
    *_CONTROLS,
    *map(_then_elastic, _CONTROLS),
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
_ELASTIC: dict[str, dict[str, Any]] = {
    "fashion-mnist": {"alpha": 24.0},
    "yaleb_64": {"alpha": 8.0},  # not chosen, only milder
}
_GUARD: dict[str, dict[str, Any]] = {"fashion-mnist": {"n_steps": 4, "threshold": 0.5}}

# Of rows with unlabelled images.
_RIVALS_ON: dict[str, dict[str, dict[str, Any]]] = {
    "fashion-mnist": {
        "fixmatch": {"learning_rate": 1e-3},
        "mean-teacher": {"learning_rate": 3e-3, "weight": 0.3},
    }
}
_SEMI: dict[str, dict[str, Any]] = {
    "fashion-mnist": {"elastic": False, "residual": 1.0, "vote": 0.9}
}
_SEMI_GUARD: dict[str, dict[str, Any]] = {"fashion-mnist": {"threshold": 0.5}}


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
        if row.unlabelled is not None:
            changes["unlabelled"] = _chosen(row, row.unlabelled, dataset)
            changes |= _SEMI_GUARD.get(dataset, {}) if row.name in _ABLATIONS else {}
        if dataset != "mnist":
            changes["paper"] = None  # the paper has this table for MNIST only
        rows[row.name] = dataclasses.replace(row, **changes)
    return rows


def _chosen(row: Row, settings: Unlabelled, dataset: str) -> Unlabelled:
    """Give the settings of a row with unlabelled images that were chosen for a data set."""
    changes = _RIVALS_ON.get(dataset, {}).get(row.name, {})
    if row.name in _ABLATIONS:
        changes = _SEMI.get(dataset, {}) | _ABLATIONS[row.name][1]
    return dataclasses.replace(settings, **changes)


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
    inner = _CHANGEABLE_UNLABELLED if row.unlabelled is not None else ()
    values = read_changes(
        changes.split(","), (Row, Unlabelled), (*_CHANGEABLE, *inner), f"row '{name}'"
    )
    if row.unlabelled is not None:
        own = {key: values.pop(key) for key in _CHANGEABLE_UNLABELLED if key in values}
        values["unlabelled"] = dataclasses.replace(row.unlabelled, **own)
    title = f"{row.title} ({changes.replace(',', ', ')})"
    return dataclasses.replace(row, name=name, title=title, paper=None, **values)


_CHANGEABLE = ("multiplier", "n_steps", "threshold", "n", "m", "alpha", "sigma")
_CHANGEABLE_UNLABELLED = (
    "residual",
    "elastic",
    "opinion_share",
    "believe",
    "balanced",
    "weight",
    "learning_rate",
    "vote",
)


def read_changes(
    changes: Sequence[str], kinds: Sequence[type], keys: Sequence[str], where: str
) -> dict[str, Any]:
    """Read ``key=value`` texts as values of the fields of some dataclasses; "none" is None."""
    types = {key: kind for owner in kinds for key, kind in get_type_hints(owner).items()}
    values: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if key not in keys or not equals:
            raise UserError(f"{where}: '{change}' is not key=value with a key of {', '.join(keys)}")
        try:
            values[key] = TypeAdapter(types[key]).validate_python(None if text == "none" else text)
        except ValidationError:
            raise UserError(f"{where}: '{text}' is no value for {key}") from None
    return values
