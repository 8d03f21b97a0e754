"""What an augmentation did to a batch, so that it can be done again."""

from __future__ import annotations

from typing import TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transop.errors import UserError
from transop.inputs import check_tensor
from transop.model import ManifoldAutoencoder


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
