"""Python calls: good calls of public functions in which one or two arguments are spoiled."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transop
from attacks import HOSTILE, Case
from attacks.models import small_run
from transop.augment import Guard
from transop.semi_supervised import (
    Consistency,
    learn_from_few_labels,
    spread_labels,
    weigh_neighbours,
)

# A function, a good call of it by name, and further arguments to spoil.
Call = tuple[Callable[..., Any], dict[str, Any], list[str]]
TINY = {
    "autoencoder.width": 2,
    "autoencoder.latent_dimension": 3,
    "autoencoder.epochs": 1,
    "operators.n_operators": 2,
    **{f"{phase}.epochs": 0 for phase in ("operators", "fine_tuning")},
    **{f"{phase}.epochs": 0 for phase in ("classifier", "coefficient_encoder")},
}


def _tensors() -> dict[str, Callable[[], Any]]:
    """List arguments that are nearly right, or not at all, each made when it is needed."""
    return {
        "empty tensor": lambda: torch.empty(0),
        "scalar tensor": lambda: torch.tensor(3.0),
        "integers": lambda: torch.ones(4, 3, dtype=torch.int64),
        "half precision": lambda: torch.ones(4, 3, dtype=torch.float16),
        "double precision": lambda: torch.ones(4, 3, dtype=torch.float64),
        "complex": lambda: torch.ones(4, 3, dtype=torch.complex64),
        "bool tensor": lambda: torch.ones(4, 3, dtype=torch.bool),
        "meta": lambda: torch.ones(4, 3, device="meta"),
        "sparse": lambda: torch.ones(4, 3).to_sparse(),
        "nan tensor": lambda: torch.full((4, 3), float("nan")),
        "inf tensor": lambda: torch.full((4, 3), float("inf")),
        "huge values": lambda: torch.full((4, 3), 1e30),
        "no rows": lambda: torch.ones(0, 3),
        "no columns": lambda: torch.ones(4, 0),
        "five axes": lambda: torch.ones(1, 1, 1, 1, 1),
        "needs gradient": lambda: torch.ones(4, 3, requires_grad=True),
        "numpy": lambda: np.ones((4, 3), np.float32),
        "numpy double": lambda: np.ones((4, 3)),
        "numpy float": lambda: np.float64(2.5),
        "numpy integer": lambda: np.int64(2),
        "numpy objects": lambda: np.array([None, "x"], dtype=object),
        "numpy texts": lambda: np.array(["a", "b"]),
        "negative strides": lambda: np.ones((4, 3), np.float32)[::-1, ::-1],
        "read only": lambda: np.broadcast_to(np.float32(1), (4, 3)),
        "images": lambda: torch.rand(4, 1, 16, 16),
        "one image": lambda: torch.rand(1, 16, 16),
        "byte images": lambda: torch.zeros(4, 1, 16, 16, dtype=torch.uint8),
        "list of lists": lambda: [[1.0, 2.0, 3.0]],
        "bytes": lambda: b"x",
        "object": object,
        "class": lambda: int,
        "function": lambda: len,
        "generator": torch.Generator,
        "python random": random.Random,
        "iterator": lambda: iter([1, 2]),
        "module": lambda: torch.nn.Linear(3, 3),
        "cuda:7": lambda: "cuda:7",
        "mps": lambda: "mps",
        "path": lambda: Path("nowhere"),
    }


# Counts whose large values are honest work, which takes as long as it takes.
_HONEST = {"10**7"}
_FEW = {"n_steps", "n_folds", "minutes"}


class Calls:
    """Call what `import transop` offers, the methods of a model, and learning from few labels."""

    def __init__(self, folder: Path) -> None:
        import logging

        logging.disable(logging.CRITICAL)
        data = folder / "data.npz"
        self.images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8)
        np.savez(data, images=self.images, labels=np.arange(40) % 2)
        self.run = small_run(folder / "run", data)
        self.cache = folder / "cache"
        self.model = transop.ManifoldAutoencoder.from_pretrained(self.run)
        self.dataset = transop.load_dataset(self.images, labels=np.arange(40) % 2)
        self.values = {**{k: (lambda v=v: v) for k, v in HOSTILE.items()}, **_tensors()}

    def case(self, chance: random.Random) -> Case:
        """Choose a function and spoil a good call of it."""
        calls = self._good_calls()
        name = chance.choice(list(calls))
        function, arguments, options = calls[name]
        known = inspect.signature(function).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
        arguments = {k: v for k, v in arguments.items() if takes_any or k in known}
        targets = [*arguments, *(k for k in options if takes_any or k in known)]
        spoiled = []
        for target in chance.sample(targets, min(len(targets), chance.choice((1, 1, 2)))):
            value = chance.choice(
                [v for v in self.values if target not in _FEW or v not in _HONEST]
            )
            arguments[target] = self.values[value]()
            spoiled.append(f"{target}={value}")
        if chance.random() < 0.03 and arguments:
            spoiled.append(f"without {arguments.popitem()[0]}")
        if chance.random() < 0.03:
            arguments["nonsense"] = 1
            spoiled.append("nonsense=1")
        return f"{name}({', '.join(spoiled)})", lambda: _call(function, arguments)

    def close(self) -> None:
        """Nothing was started."""

    def _good_calls(self) -> dict[str, Call]:
        """List functions, a good call of each by name, and optional arguments to spoil."""
        model, points = self.model, torch.rand(4, 3)
        flow = {"operators": torch.rand(2, 3, 3), "coefficients": torch.rand(4, 2)}
        flow["points"] = points
        images, image = torch.rand(4, 1, 16, 16), torch.rand(1, 16, 16)
        infer = {"operators": torch.rand(2, 3, 3), "z0": points, "z1": torch.rand(4, 3)}
        infer["sparsity_weight"] = 0.05
        inferring = ["solver", "restarts", "initial", "max_iterations", "tolerance", "generator"]
        walking = ["p", "source", "multiplier", "prior_scale", "n_steps", "guard", "residual"]
        loading = ["labels", "path", "image_size", "channels", "seed", "cache_dir"]
        pairing = ["strategy", "n_neighbours", "split", "latents", "given", "search", "device"]
        calls: dict[str, Call] = {
            "transport": (transop.transport, flow, ["method", "n_terms", "n_steps"]),
            "transport_path": (transop.transport_path, {**flow, "times": torch.rand(3)}, []),
            "TransportOperators": (
                transop.TransportOperators,
                {"n_operators": 2, "dimension": 3},
                ["n_blocks", "generator"],
            ),
            "infer_coefficients": (transop.infer_coefficients, infer, inferring),
            "load_dataset": (transop.load_dataset, {"source": self.images}, loading),
            "build_pairs": (
                transop.build_pairs,
                {"dataset": self.dataset, "strategy": "pixel", "cache_dir": self.cache},
                pairing,
            ),
            "TransportAugment": (self._augment, {"images": images}, walking),
            "from_pretrained": (
                transop.ManifoldAutoencoder.from_pretrained,
                {"folder": self.run},
                ["device", "classifier"],
            ),
            "encode": (model.encode, {"images": images}, []),
            "decode": (model.decode, {"latents": points}, []),
            "reconstruct": (model.reconstruct, {"images": images}, []),
            "classify": (model.classify, {"images": images}, []),
            "model.transport": (
                model.transport,
                {"latents": points, "coefficients": torch.rand(4, 2)},
                [],
            ),
            "infer": (model.infer, {"start": images, "end": images}, ["sparsity_weight"]),
            "path": (model.path, {"start": image, "end": image, "t": [0.0, 1.0]}, []),
            "scales": (model.coefficient_scales, {"images": images}, []),
        }
        return {**calls, **self._learning_calls(), **self._opening_calls()}

    def _learning_calls(self) -> dict[str, Call]:
        """List what learns from tables of vectors and from few labels."""
        pairs = {"z0": torch.rand(40, 3), "z1": torch.rand(40, 3), "n_operators": 2, "n_steps": 2}
        learning = ["batch_size", "sparsity_weight", "operator_decay", "learning_rate"]
        learning += ["real_part_penalty", "real_part_tolerance", "latent_scale", "initial"]
        learning += ["n_blocks", "block_layout", "generator", "callback"]
        choosing = ["covered", "most_used", "latent_scale", "n_blocks", "generator"]
        few = {"images": torch.rand(12, 1, 16, 16), "labels": [0, 1] * 3 + [-1] * 6, "n_folds": 0}
        few |= {"n_steps": 1, "n_labelled": 2, "n_unlabelled": 2}
        settings = ["teacher", "opinion_share", "threshold", "balanced", "loss", "weight"]
        settings += ["learning_rate", "weight_decay", "seed"]
        features = torch.rand(12, 3)
        graph = {"graph": weigh_neighbours(features), "rows": [0, 1], "labels": [0, 1]}
        estimator = {"X": torch.rand(20, 3), "n_operators": 2, "n_steps": 2}
        fitting = ["pairs", "features", "n_neighbours", "n_components", "n_blocks", "block_layout"]
        fitting += ["sparsity_weight", "operator_decay", "batch_size", "learning_rate", "n_copies"]
        fitting += ["random_state", "y", "t", "multiplier"]
        return {
            "learn_operators": (transop.learn_operators, pairs, learning),
            "choose_objective": (transop.choose_objective, pairs, choosing),
            "TransportOperatorLearner": (self._fit_table, estimator, fitting),
            "learn_from_few_labels": (self._learn_from_few, few, settings),
            "weigh_neighbours": (weigh_neighbours, {"features": features}, ["n_neighbours"]),
            "spread_labels": (spread_labels, {**graph, "n_classes": 2}, []),
        }

    def _opening_calls(self) -> dict[str, Call]:
        """List what builds, opens and trains models."""
        own = {"encoder": torch.nn.Flatten(), "images": torch.rand(4, 1, 3, 1), "n_operators": 2}
        building = ["decoder", "dimension", "explained", "frozen", "device"]
        operators = {"operators": torch.rand(2, 3, 3)}
        training = {"source": self.images, "settings": TINY}
        fitting = ["recipe", "minutes", "labels", "out", "overrides", "seed", "device", "resume"]
        return {
            "from_modules": (transop.ManifoldAutoencoder.from_modules, own, building),
            "set_operators": (self.model.set_operators, operators, ["sparsity_weight"]),
            "Run.open": (self._open, {"path": self.run}, ["data", "device", "offline", "progress"]),
            "fit": (transop.fit, training, [*fitting, "progress"]),
            "save_pretrained": (self.model.save_pretrained, {"folder": self.cache / "saved"}, []),
            "Guard": (Guard, {}, ["classifier", "threshold", "attempts", "shortenings", "domain"]),
        }

    def _fit_table(self, X: Any, **options: Any) -> None:
        """Learn from a table and use what was learned in every way."""
        own = {name: options.pop(name) for name in ("pairs", "features") if name in options}
        y, t = options.pop("y", np.zeros(20)), options.pop("t", [0.0, 1.0])
        multiplier = options.pop("multiplier", 1.0)
        learner = transop.TransportOperatorLearner(**options)
        learner.fit(X, **own)
        learner.path(X, X, t)
        learner.sample(X, multiplier=multiplier)
        learner.score(X)
        learner.fit_resample(X, y)

    def _learn_from_few(
        self, images: Any, labels: Any, n_folds: Any, seed: Any = 0, **settings: Any
    ) -> None:
        found = learn_from_few_labels(
            images, self.model, labels, settings=Consistency(**settings), n_folds=n_folds, seed=seed
        )
        found.predict(images)

    def _open(self, path: Any, **options: Any) -> None:
        """Open a run and look at what it holds."""
        run = transop.Run.open(path, **options)
        assert repr(run)
        assert run.model
        assert run.settings
        assert len(run.dataset)

    def _augment(self, images: Any, **options: Any) -> Any:
        return transop.TransportAugment(self.model, **options)(images)


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call by name; a missing or unknown argument is refused by Python itself."""
    from attacks import Refused

    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise Refused(str(error)) from None
    if "nonsense" in arguments and function.__name__.startswith("_"):
        raise Refused("unknown argument")
    function(**arguments)
