"""Choose every setting for a folder of images and a number of minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn.functional import mse_loss

from transop.config import Settings, settings_from_tree
from transop.data import ImageDataset, cache_folder
from transop.data.run_data import load_run_data
from transop.errors import UserError
from transop.identity import FEWEST_IMAGES, choose_source
from transop.inputs import check_number
from transop.learning import learn_operators
from transop.networks import (
    CoefficientEncoder,
    LatentClassifier,
    build_autoencoder,
    prefer_channels_last,
)
from transop.operators import sample_moves
from transop.pairs import BACKBONES, extract_features
from transop.pairs.features import input_size_for
from transop.progress import Progress, silent
from transop.training.session import computes_in_half
from transop.training.threads import ThreadWatch, threads_put_back, time_calls

# What becomes of the time: the network, the operators, identity and scales, pictures and report.
SHARES = {"autoencoder": 0.5, "operators": 0.2, "identity": 0.14, "closing": 0.16}
_PARTS = ("planning", "autoencoder", "pairs", "operators", "coefficient_encoder", "closing")
_WIDTHS = (8, 16, 32)
_WIDER = 1.5  # twice the width takes at least so many times as long
_FEWEST_EPOCHS, _FEWEST_STEPS = 12, 1_500  # below this a wider network is not worth its time
_MOST_EPOCHS = {"operators": 60.0, "coefficient_encoder": 60.0, "autoencoder": 300.0}
_FEW_IMAGES, _MORE_EPOCHS = 1_000, 5  # few images may be seen so many times as often
# The network comes last: it gets the time that the others cannot use.
_MOST_STEPS = {"operators": 4_000, "coefficient_encoder": 4_000, "autoencoder": 40_000}
_MOST_ON_PAIRS = 0.3  # of the time; beyond that pairs are made of latents
_TRIAL_SECONDS = 0.5
_MOST_CLOSING = 45.0  # seconds for pictures and report, however much time there is
# What a phase does beside its steps, in steps: choosing the objective, the scales of neighbours.
_BESIDE = {"autoencoder": 0, "operators": 800, "coefficient_encoder": 400}
_USUAL = 64  # pixels; larger images cost time that few folders repay
_SMALL = 32  # pixels to which images are brought when time is short
_IDENTITY = {
    None: f"none, as there are no labels that differ and fewer than {FEWEST_IMAGES} images; moves "
    "go half the way to the nearest image",
    "labels": "a classifier trained on the labels",
    "graph": "groups of the neighbour graph, as there are no labels that differ",
}


@dataclass(frozen=True)
class FitPlan:
    """What `transop fit` is going to do."""

    settings: Settings  # for every phase; `transop train` accepts them
    minutes: float  # the time it was made for
    seconds: dict[str, float]  # how long each part is going to take, in order
    reasons: tuple[str, ...]  # what was chosen and why, one line each

    @property
    def total(self) -> float:
        """The estimate for everything, in minutes."""
        return sum(self.seconds.values()) / 60


def make_plan(
    dataset: Any,
    minutes: float,
    *,
    seed: int = 0,
    device: str = "auto",
    progress: Progress = silent,
) -> tuple[FitPlan, ImageDataset]:
    """Look at images, time a few trial steps, and choose every setting.

    ``dataset`` is whatever ``load_dataset`` reads. What is returned are the plan, and the images
    at the size it works with.
    """
    minutes = check_number("minutes", minutes, "from 0.2 to 10,000", low=0.2, high=10_000)
    source = str(dataset) if not isinstance(dataset, ImageDataset) else "array"
    base: dict[str, Any] = {
        "recipe": "fit",
        "data": {"source": source},
        "runtime": {"seed": seed, "device": device, "precision": "auto"},
        "autoencoder": {"latent_dimension": 2},
    }
    start = time.monotonic()
    given = dataset if isinstance(dataset, ImageDataset) else None
    images = load_run_data(settings_from_tree(base, Settings), dataset=given, progress=progress)
    with threads_put_back(), torch.random.fork_rng(devices=[]):  # trials draw numbers
        ThreadWatch(None, torch.device("cpu")).check()  # time the trials as training will run
        planner = _Planner(images, minutes, start)
        # The images' own side up to 64 pixels; 32 when time is short.
        small = images.image_size > _SMALL and planner.in_a_hurry()
        if (size := _SMALL if small else min(images.image_size, _USUAL)) != images.image_size:
            base["data"]["image_size"] = size
            # From the source again: pixels that were resized twice would be other images.
            settings = settings_from_tree(base, Settings)
            images = load_run_data(settings, dataset=given, progress=progress)
            planner = _Planner(images, minutes, start)
        return planner.plan(base), images


class _Planner:
    """Chooses settings for some images and some minutes."""

    def __init__(self, images: ImageDataset, minutes: float, start: float) -> None:
        self.images, self.minutes, self.start = images, minutes, start
        self.n = len(images.splits["train"])
        self.reasons: list[str] = []
        self.batch = min(128 if self.n > 20_000 else 64, max(2, self.n // 2))
        self.enough_steps = max(_FEWEST_STEPS, _FEWEST_EPOCHS * max(1, self.n // self.batch))
        self.dimension = self._dimension()
        self.n_operators = 16 if self.dimension <= 16 else self.dimension

    def plan(self, tree: dict[str, Any]) -> FitPlan:
        budget = 60 * self.minutes
        strategy, pairs = self._pairs(budget)
        width, step = self._width(SHARES["autoencoder"] * (budget - pairs))
        operator_batch = min(100, self.n)
        pace = {
            "autoencoder": step,
            "operators": self._time_operators(operator_batch),
            "coefficient_encoder": self._time_encoder(),
        }
        looked = time.monotonic() - self.start  # reading and trials count too; reading comes twice
        time_left = max(0.2 * budget, budget - pairs - looked)
        tree |= {
            "autoencoder": {
                "latent_dimension": self.dimension,
                "width": width,
                "batch_size": self.batch,
                "learning_rate": 2e-3,
                "schedule": "one-cycle",
            },
            "pairs": {"strategy": strategy, "n_neighbours": min(5, max(1, self.n - 1))},
            "operators": {
                "objective": self._objective(pace["operators"], time_left),
                "n_operators": self.n_operators,
                "batch_size": operator_batch,
                "learning_rate": 5e-3,
                "schedule": "cosine",
            },
            "fine_tuning": {"epochs": 0},
            "classifier": {"domain": "latent", "batch_size": min(250, self.n)},
            "coefficient_encoder": {
                "batch_size": min(250, self.n),
                "kl_weight": 0.3,
                "scale_multiplier": "neighbours",
            },
        }
        settings, takes = with_epochs(settings_from_tree(tree, Settings), pace, time_left, self.n)
        self.reasons.append(f"identity: {_IDENTITY[choose_source(settings, self.images)]}")
        takes |= {"planning": looked, "pairs": pairs}
        seconds = {part: takes[part] for part in _PARTS}
        return FitPlan(settings, self.minutes, seconds, tuple(self.reasons))

    def _objective(self, step: float, seconds: float) -> str:
        """Let the pairs choose the objective unless that would eat up the time of the phase."""
        if _BESIDE["operators"] * step <= 0.6 * SHARES["operators"] * seconds:
            self.reasons.append("sparsity, decay and real parts: chosen from the pairs")
            return "data"
        self.reasons.append("sparsity and decay: the defaults, as trying others needs more time")
        return "settings"

    def in_a_hurry(self) -> bool:
        """Say whether even the narrowest network would see too few of these images."""
        step = self._time_autoencoder(_WIDTHS[0])
        return step * self.enough_steps > SHARES["autoencoder"] * 60 * self.minutes

    def _dimension(self) -> int:
        """Choose the number of latent dimensions by the images' size, colour and number."""
        channels, size, _ = self.images.image_shape
        wanted = 10 if channels == 1 and size <= 32 else 32 if self.n >= 2_000 else 16
        dimension = max(2, min(wanted, self.n // 4))
        colour = "grey" if channels == 1 else "colour"
        self.reasons.append(
            f"{self.n:,} training images, {size} x {size} pixels, {colour}: {dimension} latent "
            "dimensions"
        )
        return dimension

    def _width(self, seconds: float) -> tuple[int, float]:
        """Choose the widest network that still sees the images often enough."""
        width, step = _WIDTHS[0], self._time_autoencoder(_WIDTHS[0])
        for wider in _WIDTHS[1:]:
            if _WIDER * step * self.enough_steps > seconds:
                break
            longer = self._time_autoencoder(wider)
            if longer * self.enough_steps > seconds:
                break
            width, step = wider, longer
        rate = self.batch / step
        self.reasons.append(f"network of width {width}: {rate:,.0f} images per second here")
        return width, step

    def _pairs(self, budget: float) -> tuple[str, float]:
        """Pair by perceptual features if the time allows it, else by latents."""
        left = torch.randn(1024, 512)  # how fast does this machine multiply matrices?
        searching = self.n**2 * _seconds(lambda: left @ left.T) / (1024 * 1024 * 512)  # per feature
        latent = searching * self.dimension + 5e-9 * self.n**2
        try:
            few = self.images.subset(self.images.splits["train"][:64])
            size = input_size_for(self.images.image_size)
            extractor = BACKBONES["auto"](size, None, cache_folder())
            rows = torch.arange(len(few))
            take = _seconds(lambda: extract_features(few, rows, extractor), warm=False)
        except UserError as error:
            self.reasons.append(f"pairs of latents: {error}")
            return "latent", latent
        perceptual = take / len(rows) * self.n + 1280 * searching + 5e-9 * self.n**2
        if perceptual > _MOST_ON_PAIRS * budget:
            self.reasons.append(
                f"pairs of latents: perceptual features would take {perceptual / 60:.0f} min"
            )
            return "latent", latent
        self.reasons.append("pairs: images with similar perceptual features")
        return "perceptual", perceptual

    def _time_autoencoder(self, width: int) -> float:
        channels, size, _ = self.images.image_shape
        shape = {"image_size": size, "channels": channels, "latent_dimension": self.dimension}
        network = build_autoencoder("auto", **shape, width=width)
        prefer_channels_last(network)
        optimiser = torch.optim.Adam(network.parameters(), 1e-4)
        rows = self.images.splits["train"][: self.batch]
        mixed = computes_in_half(torch.device("cpu"))

        def step() -> None:
            images = self.images.batch(rows).contiguous(memory_format=torch.channels_last)
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                decoded = network(images)
            torch.autograd.backward(mse_loss(decoded.float(), images))
            optimiser.step()

        return _seconds(step)

    def _time_operators(self, batch: int) -> float:
        generator = torch.Generator().manual_seed(0)
        z0 = torch.randn(batch, self.dimension, generator=generator)
        z1 = z0 + 0.3 * torch.randn(batch, self.dimension, generator=generator)

        learn = partial(
            learn_operators, z0, z1, self.n_operators, sparsity_weight=0.05, batch_size=batch
        )
        short = _seconds(partial(learn, n_steps=1))
        long = _seconds(partial(learn, n_steps=6), warm=False)
        return max(1e-4, (long - short) / 5)

    def _time_encoder(self) -> float:
        points = torch.randn(min(250, self.n), self.dimension)
        operators = torch.randn(self.n_operators, self.dimension, self.dimension) / self.dimension
        encoder = CoefficientEncoder(self.dimension, self.n_operators)
        classifier = LatentClassifier(latent_dimension=self.dimension, n_classes=10)
        optimiser = torch.optim.Adam(encoder.parameters(), 1e-4)

        def step() -> None:
            moved, _ = sample_moves(operators, points, encoder(points))
            optimiser.zero_grad()
            classifier(moved).logsumexp(1).mean().backward()
            optimiser.step()

        return _seconds(step)


def with_epochs(
    settings: Settings, pace: dict[str, float], seconds: float, n_images: int
) -> tuple[Settings, dict[str, float]]:
    """Give every phase the epochs that fit into its share of the seconds; say how long it takes.

    The pace is the seconds that a step takes. What one phase cannot use goes to the network.
    """
    changes: dict[str, Any] = {}
    closing = min(SHARES["closing"] * seconds, _MOST_CLOSING)
    unused = SHARES["closing"] * seconds - closing
    takes = {"closing": closing}
    for phase in _MOST_STEPS:
        share = SHARES["identity" if phase == "coefficient_encoder" else phase]
        section, step = getattr(settings, phase), pace[phase]
        beside = _BESIDE[phase]
        if phase == "operators" and settings.operators.objective == "settings":
            beside = 0
        per_epoch = max(1, n_images // section.batch_size)
        available = share * seconds + (unused if phase == "autoencoder" else 0.0)
        epochs = max(20.0, available / step - beside) / per_epoch
        epochs = min(epochs, most_epochs(settings, phase, n_images))
        takes[phase] = (epochs * per_epoch + beside) * step
        unused += max(0.0, available - takes[phase])
        changes[phase] = section.model_copy(update={"epochs": round(max(epochs, 0.01), 2)})
    n_classifier = min(2_000, max(200, 10 * n_images // 250))
    epochs = round(n_classifier / max(1, n_images // settings.classifier.batch_size), 2)
    changes["classifier"] = settings.classifier.model_copy(update={"epochs": max(0.01, epochs)})
    return settings.model_copy(update=changes), takes


def most_epochs(settings: Settings, phase: str, n_images: int) -> float:
    """Say how many epochs of a phase are useful, whatever the time."""
    per_epoch: int = max(1, n_images // getattr(settings, phase).batch_size)
    most = _MOST_EPOCHS[phase] * (_MORE_EPOCHS if n_images <= _FEW_IMAGES else 1)
    return min(_MOST_STEPS[phase] / per_epoch, most)


def _seconds(work: Callable[[], Any], *, warm: bool = True) -> float:
    """Time a piece of work, repeated for a moment, after a first call that does not count."""
    if warm:
        work()
    return time_calls(work, _TRIAL_SECONDS, most=50)
