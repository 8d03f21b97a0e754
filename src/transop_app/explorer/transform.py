"""Move one image by several operators at once, and classify the result."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.identity import Identity
from transop.operators import sample_moves
from transop_app.explorer.opened import NINE_IN_TEN, ExploredRun

_N_SURPRISES = 8


@dataclass(frozen=True)
class Start:
    """An image and what the model makes of it."""

    image: Float[np.ndarray, "c h w"]  # as it was given
    latent: Float[np.ndarray, " d"]  # its point, in scaled units
    # for each living operator, in order, the range to either side within which nine of ten
    # sampled coefficients lie; None without a coefficient encoder
    allowed: tuple[float, ...] | None


@dataclass(frozen=True)
class Moved:
    """Where the sliders have carried an image."""

    image: Float[np.ndarray, "c h w"]
    probabilities: Float[np.ndarray, " k"] | None
    beyond: tuple[int, ...]  # operators whose slider has left its range
    is_lost: bool  # the move left all bounds and the image means nothing


@dataclass(frozen=True)
class Surprises:
    """Random moves of one image, with encoded scales and with the fixed prior."""

    encoded: Float[np.ndarray, "n c h w"] | None
    prior: Float[np.ndarray, "n c h w"]
    names: tuple[list[str] | None, list[str] | None]  # what the classifier calls each


def start_from(run: ExploredRun, image: Float[Tensor, "c h w"]) -> Start:
    """Encode an image and ask how far it may go."""
    latent = run.model.encode(image)
    allowed = None
    if run.model.coefficient_encoder is not None:
        scales = run.model.scales_at(latent)[run.living_operators]
        allowed = tuple((NINE_IN_TEN * scales).tolist())
    return Start(image.numpy(), latent.cpu().numpy(), allowed)


def move(run: ExploredRun, start: Start, values: Sequence[float]) -> Moved:
    """Apply the sliders' coefficients to an image.

    ``values`` has one coefficient per living operator, in the order of
    ``run.living_operators``.
    """
    coefficients = torch.zeros(run.model.operators.n_operators)
    coefficients[run.living_operators] = torch.tensor([float(value) for value in values])
    there = run.model.transport(coefficients, torch.from_numpy(start.latent))
    is_lost = not bool(torch.isfinite(there).all())
    there = torch.from_numpy(start.latent) if is_lost else there
    picture = run.model.decode(there)
    beyond: tuple[int, ...] = ()
    if start.allowed is not None:
        trio = zip(run.living_operators, values, start.allowed, strict=True)
        beyond = tuple(m for m, value, limit in trio if abs(value) > limit)
    return Moved(picture.cpu().numpy(), probabilities(run, there[None], 0), beyond, is_lost)


def probabilities(
    run: ExploredRun, latents: Float[Tensor, "n d"], row: int | None = None
) -> np.ndarray | None:
    """Give class probabilities of latent points, or of one row of them; None without classifier."""
    if not run.model.names_classes:
        return None
    shares: np.ndarray = run.model.classify_latents(latents).softmax(-1).cpu().numpy()
    return shares if row is None else shares[row]


def surprise(run: ExploredRun, start: Start, seed: int) -> Surprises:
    """Sample moves of one image with the encoded scales and with the fixed prior.

    The same draws are used for both, so that only the scales differ.
    """
    model = run.model
    latent = torch.from_numpy(start.latent).to(model.device)
    shape = (_N_SURPRISES, model.operators.n_operators)
    uniform = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    living = torch.zeros(model.operators.n_operators)
    living[run.living_operators] = 1.0
    encoded, names = None, None
    if start.allowed is not None:
        encoded, names = _sampled(run, latent, model.scales_at(latent).cpu() * living, uniform)
    prior, prior_names = _sampled(run, latent, model.prior_scale * living, uniform)
    return Surprises(encoded, prior, (names, prior_names))


def _sampled(
    run: ExploredRun, latent: Tensor, scales: Tensor, uniform: Tensor
) -> tuple[np.ndarray, list[str] | None]:
    there, _ = sample_moves(
        run.model.operators.operators.detach(),
        latent.expand(len(uniform), -1),
        scales.expand(len(uniform), -1),
        uniform=uniform,
    )
    shares = probabilities(run, there)
    names = None if shares is None else [class_name(run, int(k)) for k in shares.argmax(1)]
    return run.model.decode(there).cpu().numpy(), names


def class_name(run: ExploredRun, label: int) -> str:
    """Call what the identity tells apart by its name, or by its number if it has none."""
    by_graph = run.model.classifier is not None and Identity.of(run.model).source == "graph"
    names = (Identity.of(run.model).names or ()) if by_graph else run.class_names
    return names[label] if label < len(names) else str(label)
