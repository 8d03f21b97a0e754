"""Where moves start, and what they did: so that they can be made anew, or once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transop.errors import UserError
from transop.inputs import check_tensor
from transop.model import ManifoldAutoencoder


@dataclass(frozen=True)
class Start:
    """Encoded images."""

    latents: Float[Tensor, "b d"]  # in scaled units
    rest: Float[Tensor, "b w"] | None = None  # the part that operators leave alone, if any
    names: Int[Tensor, " b"] | None = None  # what a guard must go on calling them, if there is one

    def rows(self, rows: Int[Tensor, " r"]) -> Start:
        """Take some of them."""
        return Start(
            self.latents[rows],
            None if self.rest is None else self.rest[rows],
            None if self.names is None else self.names[rows],
        )

    @staticmethod
    def join(parts: Sequence[Start]) -> Start:
        """Put parts together that were encoded by the same augmentation."""
        rests = [part.rest for part in parts if part.rest is not None]
        names = [part.names for part in parts if part.names is not None]
        return Start(
            torch.cat([part.latents for part in parts]),
            torch.cat(rests) if rests else None,
            torch.cat(names) if names else None,
        )


class Params(TypedDict, total=False):
    """What was done to a batch; hand it back to do the same again."""

    apply: Bool[Tensor, " b"]  # which images were moved
    coefficients: Float[Tensor, "b s m"]  # of every step
    draws: Int[Tensor, " b"]  # moves a guard looked at; not needed to repeat them


def check_params(params: Params, n_images: int, model: ManifoldAutoencoder) -> Params:
    """Bring replayed parameters to the model's device, or say why they do not fit."""
    try:
        given = (params["apply"], params["coefficients"])
    except (KeyError, TypeError, IndexError):
        raise UserError("params must hold 'apply' and 'coefficients', as .params does") from None
    apply, coefficients = (check_tensor("params", values) for values in given)
    n_operators = model.operators.n_operators
    if apply.shape != (n_images,) or apply.dtype != torch.bool:
        raise UserError(
            f"params['apply'] is {apply.dtype} for {apply.numel()} images, but there are "
            f"{n_images} images; replay params on the same batch"
        )
    if coefficients.ndim != 3 or coefficients.shape[::2] != (n_images, n_operators):
        raise UserError(
            f"params['coefficients'] has shape {tuple(coefficients.shape)}, but there are "
            f"{n_images} images and {n_operators} operators; replay params on the same batch"
        )
    weight = model.operators.weight
    return {**params, "apply": apply.to(weight.device), "coefficients": coefficients.to(weight)}
