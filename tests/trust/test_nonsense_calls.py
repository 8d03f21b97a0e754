"""Nonsense handed to public functions is refused in one line that a user can act on, or used."""

import numpy as np
import pytest
import torch

import transop
from transop import operators
from transop.augment import Guard
from transop.errors import UserError
from transop.networks import CoefficientEncoder, build_autoencoder, build_classifier
from transop.semi_supervised import Consistency, learn_from_few_labels, weigh_neighbours
from transop_app.augment_folder import augment_folder


class Unshowable:
    def __repr__(self):
        raise RuntimeError("nothing to show")


NONSENSE = {
    "None": None,
    "a word": "abc",
    "bytes": b"x",
    "a whole number": 3,
    "a broken number": 1.5,
    "minus one": -1,
    "zero": 0,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "400 digits": 10**400,
    "5,000 digits": 10**5000,
    "True": True,
    "numbers and words": [1, "a"],
    "a ragged list": [[1.0], [1.0, 2.0]],
    "an empty list": [],
    "a dictionary": {},
    "a set": {1},
    "a function": print,
    "an object that cannot be shown": Unshowable(),
    "an array of objects": np.array([object()]),
    "an array of words": np.array(["a"]),
    "an array of dates": np.array(["2020"], dtype="datetime64"),
    "no entries": torch.zeros(0),
    "one number": torch.tensor(2.0),
    "meta images": torch.zeros(6, 1, 16, 16, device="meta"),
    "meta latents": torch.zeros(6, 4, device="meta"),
    "sparse": torch.zeros(6, 4).to_sparse(),
    "complex": torch.zeros(6, 4, dtype=torch.complex64),
    "bytes of images": torch.zeros(6, 1, 16, 16, dtype=torch.uint8),
    "NaN images": torch.full((6, 1, 16, 16), float("nan")),
    "five axes": torch.zeros(1, 6, 1, 16, 16),
}


def make_model():
    torch.manual_seed(0)
    return transop.ManifoldAutoencoder(
        build_autoencoder("conv", image_size=16, channels=1, latent_dimension=4, width=4),
        transop.TransportOperators(3, 4),
        coefficient_encoder=CoefficientEncoder(4, 3, hidden=(8,)),
        classifier=build_classifier("lenet", image_size=16, channels=1, n_classes=3),
    )


MODEL = make_model()
X = torch.rand(6, 1, 16, 16, generator=torch.Generator().manual_seed(0))
Z, C, PSI = MODEL.encode(X), torch.zeros(6, 3), MODEL.operators.operators.detach()
AUGMENT = transop.TransportAugment(MODEL)
GUARDED = transop.TransportAugment(MODEL, guard=0.1)
MOVES = {"apply": torch.ones(6, dtype=torch.bool), "coefficients": torch.zeros(6, 1, 3)}


def spoil(function, good, *names):
    """Make one call for every argument, in which that argument is nonsense."""
    return {
        f"{getattr(function, '__qualname__', function)}({name})": (
            lambda value, name=name: function(**{**good, name: value})
        )
        for name in names
    }


def guarded_by(answer):
    return transop.TransportAugment(MODEL, guard=Guard(lambda _: answer))(X)


def fit_table(X=Z, *, pairs=None, features=None, y=None, t=(0.0,), multiplier=1.0, **options):
    """Learn from a table and use what was learned."""
    few = {"n_operators": 1, "n_steps": 1, "sparsity_weight": 0.1} | options
    learner = transop.TransportOperatorLearner(**few).fit(X, pairs=pairs, features=features)
    learner.path(X, X, t)
    learner.sample(X, multiplier=multiplier)
    learner.fit_resample(X, [0] * len(X) if y is None else y)


def learn_from_few(images=X, labels=(0, 1, 0, 1, -1, -1), model=MODEL, n_folds=0, **options):
    """Learn a classifier in one step."""
    short = Consistency(n_steps=1, n_labelled=2, n_unlabelled=2)
    if options.get("settings") is None:  # the default would train for long
        options["settings"] = short
    learn_from_few_labels(images, model, labels, n_folds=n_folds, **options).predict(X)


PIXELS = np.random.default_rng(0).integers(0, 256, (12, 16, 16), np.uint8)
DATASET = transop.load_dataset(PIXELS)
FLOW = {"operators": PSI, "coefficients": C, "points": Z}
LEARNING = {"z0": Z, "z1": Z + 1, "n_operators": 1, "n_steps": 1, "sparsity_weight": 0.1}
network = {"name": "conv", "image_size": 16, "channels": 1, "latent_dimension": 4, "width": 4}
lenet = {"name": "lenet", "image_size": 16, "channels": 1, "n_classes": 3}
parts = {"autoencoder": MODEL.autoencoder, "operators": MODEL.operators}
CALLS = {
    **spoil(MODEL.forward, {}, "images"),
    **spoil(MODEL.encode, {}, "images"),
    **spoil(MODEL.decode, {}, "latents"),
    **spoil(MODEL.reconstruct, {}, "images"),
    **spoil(MODEL.transport, {"coefficients": C, "latents": Z}, "coefficients", "latents"),
    **spoil(MODEL.infer, {"start": X, "end": X}, "start", "end"),
    **spoil(MODEL.infer_latents, {"z0": Z, "z1": Z}, "z0", "z1"),
    **spoil(MODEL.path, {"start": X, "end": X}, "start", "end", "t"),
    **spoil(MODEL.latent_path, {"z0": Z, "z1": Z, "times": [0, 1]}, "z0", "z1", "times"),
    **spoil(MODEL.coefficient_scales, {}, "images"),
    **spoil(MODEL.scales_at, {}, "latents"),
    **spoil(MODEL.classify, {}, "images"),
    **spoil(MODEL.classify_latents, {}, "latents"),
    **spoil(transop.ManifoldAutoencoder, parts, *parts, "latent_scale", "sparsity_weight"),
    **spoil(transop.ManifoldAutoencoder, parts, "prior_scale", "coefficient_encoder", "classifier"),
    **spoil(transop.ManifoldAutoencoder, parts, "classifier_domain", "phases", "class_names"),
    **spoil(AUGMENT.forward, {"images": X}, "images", "params", "labels"),
    **spoil(GUARDED.forward, {"images": X}, "images", "labels"),
    "params['apply']": lambda value: AUGMENT(X, {**MOVES, "apply": value}),
    "params['coefficients']": lambda value: AUGMENT(X, {**MOVES, "coefficients": value}),
    **spoil(GUARDED.sample, {"latents": Z}, "latents", "labels"),
    **spoil(transop.TransportAugment, {"model": MODEL}, "model", "p", "same_on_batch", "source"),
    **spoil(transop.TransportAugment, {"model": MODEL}, "multiplier", "prior_scale", "n_steps"),
    **spoil(transop.TransportAugment, {"model": MODEL}, "guard", "residual", "generator"),
    **spoil(Guard, {}, "classifier", "threshold", "attempts", "shortenings", "domain"),
    "a guard's answer": guarded_by,
    **spoil(augment_folder, {"augment": AUGMENT, "source": "no", "target": "no"}, "source"),
    **spoil(build_autoencoder, network, *network),
    **spoil(build_classifier, lenet, *lenet),
    **spoil(
        transop.transport,
        {"operators": PSI, "coefficients": C, "points": Z},
        *("operators", "coefficients", "points", "method", "n_terms"),
    ),
    **spoil(
        transop.transport_path,
        {"operators": PSI, "coefficients": C, "points": Z, "times": torch.tensor([0.0])},
        *("operators", "coefficients", "points", "times"),
    ),
    **spoil(
        transop.TransportOperators,
        {"n_operators": 2, "dimension": 4},
        *("n_operators", "dimension", "n_blocks", "block_layout", "generator"),
    ),
    **spoil(
        transop.learn_operators,
        LEARNING,
        *(*LEARNING, "operator_decay", "real_part_penalty", "real_part_tolerance"),
        *("batch_size", "learning_rate", "latent_scale", "initial", "n_blocks", "block_layout"),
        *("generator", "callback"),
    ),
    **spoil(
        transop.choose_objective,
        {name: LEARNING[name] for name in ("z0", "z1", "n_operators", "n_steps")},
        *("z0", "z1", "n_operators", "n_steps", "covered", "most_used", "generator"),
    ),
    **spoil(fit_table, {}, "X", "pairs", "features", "y", "t", "multiplier", "n_components"),
    **spoil(fit_table, {}, "n_operators", "n_neighbours", "n_blocks", "random_state", "n_copies"),
    **spoil(
        transop.infer_coefficients,
        {"operators": PSI, "z0": Z, "z1": Z, "sparsity_weight": 0.1},
        *("operators", "z0", "z1", "sparsity_weight", "solver", "restarts", "initial"),
        *("max_iterations", "tolerance", "generator"),
    ),
    **spoil(
        transop.ManifoldAutoencoder.from_modules,
        {"encoder": torch.nn.Flatten(), "images": torch.rand(4, 1, 3, 1)},
        *("encoder", "decoder", "images", "n_operators", "dimension", "explained", "frozen"),
        "device",
    ),
    **spoil(
        transop.load_dataset,
        {"source": PIXELS},
        *("source", "labels", "path", "image_size", "channels", "fit", "crop", "split"),
        *("cache_dir", "seed", "offline", "progress"),
    ),
    **spoil(
        transop.build_pairs,
        {"dataset": DATASET, "strategy": "random"},
        *("dataset", "strategy", "n_neighbours", "split", "weights", "input_size", "search"),
        *("cache_dir", "device", "progress"),
    ),
    **spoil(transop.build_pairs, {"dataset": DATASET, "strategy": "given"}, "given"),
    **spoil(transop.build_pairs, {"dataset": DATASET, "strategy": "latent"}, "latents"),
    **spoil(DATASET.batch, {"indices": [0]}, "indices", "device"),
    **spoil(DATASET.subset, {}, "split"),
    **spoil(transop.Run.open, {"path": "no"}, "path", "device", "offline", "progress"),
    **spoil(
        operators.sample_moves,
        {"operators": PSI, "points": Z, "scales": C},
        *("operators", "points", "scales", "generator", "uniform"),
    ),
    **spoil(operators.laplace_kl, {"scale": C + 1, "prior_scale": 1.0}, "scale", "prior_scale"),
    **spoil(
        learn_from_few,
        {},
        *("images", "labels", "model", "settings", "n_folds", "seed", "augment"),
    ),
    **spoil(Consistency, {}, *vars(Consistency())),
    **spoil(weigh_neighbours, {"features": Z}, "features", "n_neighbours"),
    **spoil(
        transop.fit,
        {"source": PIXELS},
        "minutes",
    ),
    **spoil(
        transop.fit,
        {"source": np.zeros((2, 16, 16), np.uint8)},
        *("recipe", "settings", "overrides", "seed", "device", "resume", "out"),
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.usefixtures("as_users_run_it")
def test_nonsense_is_refused_in_one_line_or_used(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some words are fine names of folders
    refusals = {}
    for name, value in NONSENSE.items():
        try:
            call(value)
        except UserError as error:
            refusals[name] = str(error)
    assert not [name for name, text in refusals.items() if "\n" in text or len(text) > 600]


def test_a_label_that_the_guard_does_not_know_is_refused():
    with pytest.raises(UserError, match=r"labels go from 0 to 99.*classes 0 to 2"):
        GUARDED(X, labels=torch.tensor([0, 1, 2, 0, 1, 99]))
