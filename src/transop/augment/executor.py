"""The networks of a model as an augmentation runs them: often, and without gradients."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError
from transop.inputs import check_choice
from transop.model import ManifoldAutoencoder
from transop.networks import FoldedAutoencoder

Source = Literal["auto", "encoder", "prior"]


class Executor:
    """Encodes and decodes with folded copies of a model's networks, or with the model itself.

    A copy is made at the first call and again whenever the model's weights have changed. Modules
    of the user's own, and models that are not on a CPU, run as they are. ``dtype`` is what copies
    compute in; None for the type of their weights.
    """

    def __init__(self, model: ManifoldAutoencoder, dtype: torch.dtype | None = None) -> None:
        self.model = model
        self.dtype = dtype
        self._folded: FoldedAutoencoder | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the copy behind: another process makes its own."""
        return {**self.__dict__, "_folded": None}

    def encode(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        """Map images that were checked already to latents in scaled units."""
        network = self._current()
        if network is None:
            return self.model.encode(images)
        return network.encode(images) / self.model.latent_scale

    def rest(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b w"] | None:
        """Give the part of the latents that operators leave alone, if there is one."""
        return self.model.rest(images) if self.model.carries_rest else None

    def decode(
        self, latents: Float[Tensor, "b d"], rest: Float[Tensor, "b w"] | None = None
    ) -> Float[Tensor, "b c h w"]:
        """Map latents in scaled units to images."""
        network = self._current()
        if network is None:
            return self.model.decode(latents, rest=rest)
        return network.decode(latents * self.model.latent_scale)

    def scales(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b m"]:
        """Ask the coefficient encoder how far every operator may go."""
        encoder = self.model.coefficient_encoder
        assert encoder is not None
        if self.dtype is None:
            scales: Tensor = encoder(latents)
            return scales
        with torch.autocast(latents.device.type, dtype=self.dtype):
            return encoder(latents).to(latents)  # type: ignore[no-any-return]

    def _current(self) -> FoldedAutoencoder | None:
        """Give the folded copy, made anew if weights have changed; None if there can be none."""
        network = self.model.autoencoder
        if not FoldedAutoencoder.is_possible(network):
            self._folded = None
        elif self._folded is None or not self._folded.is_current(network):
            self._folded = FoldedAutoencoder(network, self.dtype)
        return self._folded


def choose_source(model: ManifoldAutoencoder, source: str) -> Literal["encoder", "prior"]:
    """Say where scales come from, or why they cannot come from there."""
    check_choice("source", source, ("auto", "encoder", "prior"))
    if source == "encoder" and model.coefficient_encoder is None:
        raise UserError(
            "source = 'encoder', but the model has no coefficient encoder; train the phase "
            "'coefficient_encoder' or use source='prior'"
        )
    return "prior" if source == "prior" or model.coefficient_encoder is None else "encoder"
