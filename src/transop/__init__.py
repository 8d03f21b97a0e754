"""Learn identity-preserving transformations from unlabelled images.

Names are loaded on first use, so that ``import transop`` (and ``transop --help``)
does not pay for importing torch. Type checkers see the same names as plain imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transop.augment import TransportAugment
    from transop.data import ImageDataset, load_dataset
    from transop.estimators import TransportOperatorLearner
    from transop.inference import InferenceResult, infer_coefficients
    from transop.learning import LearnedOperators, choose_objective, learn_operators
    from transop.model import ManifoldAutoencoder
    from transop.operators import TransportOperators, transport, transport_path
    from transop.pairs import build_pairs
    from transop.run import Run
    from transop.training.fit import fit

__version__ = "0.2.0"

_PUBLIC_NAMES: dict[str, str] = {
    "transport": "transop.operators",
    "transport_path": "transop.operators",
    "TransportOperators": "transop.operators",
    "infer_coefficients": "transop.inference",
    "InferenceResult": "transop.inference",
    "learn_operators": "transop.learning",
    "LearnedOperators": "transop.learning",
    "choose_objective": "transop.learning",
    "load_dataset": "transop.data",
    "ImageDataset": "transop.data",
    "build_pairs": "transop.pairs",
    "ManifoldAutoencoder": "transop.model",
    "TransportOperatorLearner": "transop.estimators",
    "TransportAugment": "transop.augment",
    "fit": "transop.training.fit",
    "Run": "transop.run",
}

__all__ = [
    "ImageDataset",
    "InferenceResult",
    "LearnedOperators",
    "ManifoldAutoencoder",
    "Run",
    "TransportAugment",
    "TransportOperatorLearner",
    "TransportOperators",
    "__version__",
    "build_pairs",
    "choose_objective",
    "fit",
    "infer_coefficients",
    "learn_operators",
    "load_dataset",
    "transport",
    "transport_path",
]


def __getattr__(name: str) -> Any:
    """Import the module that holds a public name the first time it is asked for."""
    if name not in _PUBLIC_NAMES:
        raise AttributeError(f"module 'transop' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
