"""An autoencoder of the user's own modules, and the principal directions of its latents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transop.errors import UserError, show
from transop.networks.autoencoder import Autoencoder, AutoencoderShape
from transop.operators.devices import where_supported

logger = logging.getLogger(__name__)

_MOST_WHOLE = 128  # latents up to this many dimensions are used whole
_SAME = 1e-10  # share of the squared length below which latents do not differ
_MOST_DIRECTIONS = 128  # chosen by themselves; more can be asked for
_MOST_TRIED, _AT_ONCE = 2_000, 250  # inputs on which the directions of large latents are found
_SLACK = 0.5  # what a decoder's pixels may leave [0, 1] by without a warning


class PrincipalDirections(nn.Module):
    """A linear bottleneck: coordinates along k orthonormal directions, and the rest."""

    centre: Tensor  # mean of the latents, length w
    directions: Tensor  # orthonormal rows, (k, w), most important first

    def __init__(self, n_directions: int, n_whole: int, explained: float) -> None:
        super().__init__()
        self.explained = explained  # share of the variance along the directions
        self.register_buffer("centre", torch.zeros(n_whole))
        self.register_buffer("directions", torch.zeros(n_directions, n_whole))

    @classmethod
    def choose(
        cls, latents: Float[Tensor, "n w"], *, dimension: int | None, explained: float
    ) -> PrincipalDirections | None:
        """Find the directions along which latents vary most; None if they are used whole.

        There are ``dimension`` of them, or as many as cover a share ``explained`` of the variance,
        at most 128. Latents that have no more dimensions are used whole.
        """
        n, width = latents.shape
        if width <= (_MOST_WHOLE if dimension is None else dimension):
            return None
        wanted = min(2 * (dimension or 1), width)
        if n <= max(wanted, 2):
            raise UserError(
                f"{n} images are too few to find the principal directions of latents with {width} "
                f"dimensions; pass more than {max(wanted, 2)}, better a thousand"
            )
        centre = latents.mean(0)
        values, vectors = _principal(latents - centre)
        total = values.sum().clamp_min(torch.finfo(values.dtype).tiny)
        shares = (values / total).cumsum(0)
        if float(values[0]) <= _SAME * n * max(float(centre.square().sum()), 1e-30):
            raise UserError("all latents are the same; the encoder tells these images not apart")
        alive = int((values > 1e-10 * values[0]).sum())
        k = int((shares < explained).sum()) + 1 if dimension is None else dimension
        k = min(k, alive, _MOST_DIRECTIONS if dimension is None else k)
        found = cls(k, width, round(float(shares[k - 1]), 4))
        found.centre.copy_(centre)
        found.directions.copy_(vectors[:k])
        where, share = f"{k} principal directions of {width}", 100 * found.explained
        logger.info("operators act on %s; they explain %.1f %% of the variance", where, share)
        return found.to(latents.device)

    def coordinates(self, latents: Float[Tensor, "b w"]) -> Float[Tensor, "b k"]:
        """Measure latents along the directions."""
        return (latents - self.centre) @ self.directions.mT

    def rest(self, latents: Float[Tensor, "b w"]) -> Float[Tensor, "b w"]:
        """Take away what lies along the directions."""
        away = latents - self.centre
        return away - (away @ self.directions.mT) @ self.directions

    def whole(
        self, coordinates: Float[Tensor, "b k"], rest: Float[Tensor, "b w"] | None
    ) -> Float[Tensor, "b w"]:
        """Put latents together again; an unknown rest is the average one."""
        latents = torch.addmm(self.centre, coordinates, self.directions)
        return latents if rest is None else latents + rest


def _principal(away: Float[Tensor, "n w"]) -> tuple[Tensor, Tensor]:
    """Give variances and directions, largest first, from the smaller of two Gram matrices."""
    exact = where_supported(away).double()
    n, width = exact.shape
    if width <= n:
        values, vectors = torch.linalg.eigh(exact.mT @ exact)
        return values.flip(0).clamp_min(0), vectors.flip(1).mT.float()
    values, rows = torch.linalg.eigh(exact @ exact.mT)
    values, rows = values.flip(0).clamp_min(0), rows.flip(1)
    lengths = values.sqrt().clamp_min(1e-150)
    return values, (rows / lengths).mT.matmul(exact).float()


Call = nn.Module | Callable[[Tensor], Tensor]


class ModuleAutoencoder(Autoencoder):
    """Encodes with the user's modules and splits latents into what moves and what does not.

    Latents of any shape are flattened. If there are principal directions, operators act on the
    coordinates along them; the rest of a latent is carried along unchanged. Frozen modules stay in
    evaluation mode and without gradients.
    """

    origin: Tensor  # added to all coordinates

    def __init__(
        self,
        image_shape: tuple[int, ...],  # of one input, whatever its axes mean
        latent_shape: tuple[int, ...],  # of one latent, before it is flattened
        encoder: Call,
        decoder: Call | None,
        principal: PrincipalDirections | None = None,
        *,
        frozen: bool = True,
    ) -> None:
        nn.Module.__init__(self)
        k = prod(latent_shape) if principal is None else len(principal.directions)
        channels, size = (*image_shape, 1, 1)[0], (*image_shape, 1)[-1]
        self.shape = AutoencoderShape("own modules", size, channels, k, 0)
        self._image_shape, self.latent_shape, self.frozen = image_shape, latent_shape, frozen
        self.encoder = _as_module(encoder)  # type: ignore[assignment]
        self.decoder = None if decoder is None else _as_module(decoder)  # type: ignore[assignment]
        self.principal = principal
        self.register_buffer("origin", torch.zeros(k))
        if frozen:
            self.requires_grad_(False)
        self.eval()

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self._image_shape

    def encode(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b d"]:
        """Map inputs to the coordinates that operators act on."""
        whole = self._whole(images)
        coordinates = whole if self.principal is None else self.principal.coordinates(whole)
        return coordinates + self.origin

    def rest(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b w"] | None:
        """Give the part of the latents that operators leave alone, or None if there is none."""
        return None if self.principal is None else self.principal.rest(self._whole(images))

    def decode(
        self, latents: Float[Tensor, "b d"], rest: Float[Tensor, "b w"] | None = None
    ) -> Float[Tensor, "b ..."]:
        """Map coordinates, and the rest of a latent if it is known, to images."""
        if self.decoder is None:
            raise UserError("this model has no decoder; pass decoder= to from_modules")
        whole = latents - self.origin
        if self.principal is not None:
            whole = self.principal.whole(whole, rest)
        images = self.decoder(whole.reshape(-1, *self.latent_shape))
        return _check_output("decoder", images, len(latents), self.image_shape)

    def forward(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """Encode and decode."""
        return self.decode(self.encode(images), self.rest(images))

    @torch.no_grad()
    def shift_latents(self, offset: Float[Tensor, " d"]) -> None:
        """Add a constant to all coordinates, in place; what is decoded stays as it was."""
        self.origin.add_(offset)

    def train(self, mode: bool = True) -> ModuleAutoencoder:
        """Switch to training mode, unless the modules are frozen."""
        super().train(mode and not self.frozen)
        return self

    def architecture(self) -> dict[str, Any]:
        """Describe shapes; the modules themselves must be passed in again."""
        return {
            "image_shape": list(self.image_shape),
            "latent_shape": list(self.latent_shape),
            "latent_dimension": self.shape.latent_dimension,
            "has_decoder": self.has_decoder,
            "explained": None if self.principal is None else self.principal.explained,
            "frozen": self.frozen,
        }

    def _whole(self, images: Tensor) -> Float[Tensor, "b w"]:
        latents = _check_output("encoder", self.encoder(images), len(images), self.latent_shape)
        return latents.reshape(len(images), -1).to(self.origin)


class _Function(nn.Module):
    """A function as a module; the module a bound method belongs to becomes a part of it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        owner = getattr(function, "__self__", None)
        self.owner = owner if isinstance(owner, nn.Module) else None
        self._function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self._function(inputs)


def _as_module(call: Call) -> nn.Module:
    return call if isinstance(call, nn.Module) else _Function(call)


def make_autoencoder(
    encoder: Call,
    decoder: Call | None,
    images: Float[Tensor, "b ..."],
    *,
    dimension: int | None,
    explained: float,
    frozen: bool,
) -> ModuleAutoencoder:
    """Try the modules on a few inputs and choose the directions that operators act on.

    The arguments are those of `transop.ManifoldAutoencoder.from_modules`.
    """
    sample = images[:: max(1, len(images) // _MOST_TRIED)][:_MOST_TRIED]
    latents = _try(encoder, sample)
    latent_shape = tuple(latents.shape[1:])
    flat = latents.reshape(len(latents), -1).float()
    principal = PrincipalDirections.choose(flat, dimension=dimension, explained=explained)
    image_shape = tuple(images.shape[1:])
    network = ModuleAutoencoder(
        image_shape, latent_shape, encoder, decoder, principal, frozen=frozen
    ).to(flat.device)
    if decoder is not None:
        _try_decoder(network, sample[:2])
    return network


@contextmanager
def _saying(refusal: str) -> Iterator[None]:
    """Put what a user's module is refused for before whatever it raises."""
    try:
        yield
    except UserError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"{refusal}: {reason}") from None


@torch.no_grad()
def _try(encoder: Call, images: Tensor) -> Tensor:
    if isinstance(encoder, nn.Module):
        encoder.eval()
    parts = []
    with _saying(f"the encoder does not take images of shape {tuple(images.shape[1:])}"):
        for chunk in torch.split(images, _AT_ONCE):
            parts.append(_check_output("encoder", encoder(chunk), len(chunk), None))
    latents = torch.cat(parts)
    if not bool(latents.isfinite().all()):
        raise UserError("the encoder gives NaN or infinity for these images; check its weights")
    return latents


@torch.no_grad()
def _try_decoder(network: ModuleAutoencoder, images: Tensor) -> None:
    with _saying(f"the decoder does not take latents of shape {network.latent_shape}"):
        decoded = network(images)
    if not bool(decoded.isfinite().all()):
        raise UserError("the decoder gives NaN or infinity for these images; check its weights")
    low, high = (float(value) for value in decoded.aminmax())
    if low < -_SLACK or high > 1 + _SLACK:
        message = "the decoder gives values from %.3g to %.3g; pictures expect values in [0, 1]"
        logger.warning(message, low, high)


def _check_output(name: str, answer: Any, n: int, shape: tuple[int, ...] | None) -> Tensor:
    """Refuse what is no batch of floats of the right shape."""
    if not isinstance(answer, Tensor) or not answer.is_floating_point():
        raise UserError(
            f"the {name} returned {show(answer)}; it must return one tensor of floats: wrap it, "
            f"such as lambda x: {name}(x)[0]"
        )
    if answer.ndim < 2 or len(answer) != n or (shape and tuple(answer.shape[1:]) != shape):
        wanted = "" if shape is None else f", but {shape} is needed for each"
        raise UserError(f"the {name} returned shape {tuple(answer.shape)} for {n} inputs{wanted}")
    return answer
