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
from attacks import HOSTILE, Attack, Case
from attacks.models import small_run
from attacks.values import nearly_right, spoil
from transop import inference, operators
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


# Counts whose large values are honest work, which takes as long as it takes.
_HONEST = {name: {"10**7"} for name in ("n_steps", "n_folds", "minutes", "n_copies")}
# A torch module is a function: what it does with the arguments it is given is its own affair.
_HONEST |= {name: {"module"} for name in ("callback", "progress", "solver")}


class Calls(Attack):
    """Call what `import transop` offers, the methods of a model, and learning from few labels."""

    def __init__(self, folder: Path) -> None:
        import logging

        super().__init__(folder)
        logging.disable(logging.CRITICAL)
        data = folder / "data.npz"
        self.images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), np.uint8)
        np.savez(data, images=self.images, labels=np.arange(40) % 2)
        self.run = small_run(folder / "run", data)
        self.cache = folder / "cache"
        self.model = transop.ManifoldAutoencoder.from_pretrained(self.run)
        self.dataset = transop.load_dataset(self.images, labels=np.arange(40) % 2)
        self.pairs = transop.build_pairs(self.dataset, "random")
        self.values = {**{k: (lambda v=v: v) for k, v in HOSTILE.items()}, **nearly_right()}

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
            honest = _HONEST.get(target, set())
            values = {k: v for k, v in self.values.items() if k not in honest}
            if chance.random() < 0.4:
                values = spoil(arguments.get(target)) or values
            value = chance.choice(list(values))
            arguments[target] = values[value]()
            spoiled.append(f"{target}={value}")
        if chance.random() < 0.03 and arguments:
            spoiled.append(f"without {arguments.popitem()[0]}")
        if chance.random() < 0.03:
            arguments["nonsense"] = 1
            spoiled.append("nonsense=1")
        return f"{name}({', '.join(spoiled)})", lambda: _call(function, arguments)

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
        return {
            **calls,
            **self._flow_calls(),
            **self._further_model_calls(),
            **self._learning_calls(),
            **self._opening_calls(),
        }

    def _flow_calls(self) -> dict[str, Call]:
        """List what measures flows and draws moves."""
        dictionary, points, rows = torch.rand(2, 3, 3), torch.rand(4, 3), torch.rand(4, 2)
        flow = {"operators": dictionary, "coefficients": rows, "points": points}
        pairs = {"operators": dictionary, "coefficients": rows, "z0": points, "z1": points + 1}
        return {
            "eigenvalues": (operators.eigenvalues, {"operators": dictionary}, []),
            "largest_real_part": (operators.largest_real_part, {"operators": dictionary}, []),
            "sample_moves": (
                operators.sample_moves,
                {"operators": dictionary, "points": points, "scales": rows},
                ["generator", "uniform"],
            ),
            "sample_laplace": (operators.sample_laplace, {"scale": rows}, ["generator"]),
            "laplace_kl": (operators.laplace_kl, {"scale": rows, "prior_scale": 0.1}, []),
            "data_gradient": (operators.data_gradient, pairs, []),
            "transport_jacobian": (
                operators.transport_jacobian,
                flow,
                [],
            ),
            "objective": (inference.objective, {**pairs, "sparsity_weight": 0.1}, []),
        }

    def _further_model_calls(self) -> dict[str, Call]:
        """List what works on latents, and what a data set offers."""
        model, points = self.model, torch.rand(4, 3)
        return {
            "infer_latents": (model.infer_latents, {"z0": points, "z1": points + 1}, []),
            "latent_path": (
                model.latent_path,
                {"z0": points, "z1": points + 1, "times": [0.0, 1.0]},
                [],
            ),
            "scales_at": (model.scales_at, {"latents": points}, []),
            "batch": (self.dataset.batch, {"indices": [0, 1]}, ["device", "dtype"]),
            "subset": (self.dataset.subset, {"split": "train"}, []),
            "sample": (self.pairs.sample, {"generator": None, "batch_size": 3}, []),
            "agreement": (self.pairs.label_agreement, {"labels": [0, 1] * 20}, []),
        }

    def _learning_calls(self) -> dict[str, Call]:
        """List what learns from tables of vectors and from few labels."""
        pairs = {"z0": torch.rand(40, 3), "z1": torch.rand(40, 3), "n_operators": 2, "n_steps": 2}
        pairs["sparsity_weight"] = 0.05
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
        estimator["sparsity_weight"] = 0.05
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
