"""Turn what a user passes in into what a network takes, or say what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError

_CHUNK = 250  # rows through a network at once: larger chunks leave the cache and are slower
_SLACK = 1e-3  # what resizing may add to the range of pixels


def check_images(
    images: Any, image_shape: tuple[int, int, int], like: Tensor, *, values: bool = True
) -> tuple[Float[Tensor, "b c h w"], bool]:
    """Bring images to a device as a batch.

    Args:
        images: one image or a batch, floats in [0, 1].
        image_shape: channels, height and width the network takes.
        like: a weight whose device and type to take on.
        values: look at the values too, which costs a pass over them and cannot be compiled.

    Returns:
        The batch, and whether it was a single image.
    """
    batch = torch.as_tensor(images)
    if not batch.is_floating_point():
        raise UserError(
            f"images have type {batch.dtype}; pass floats in [0, 1], such as images / 255"
        )
    if batch.ndim not in (3, 4) or tuple(batch.shape[-3:]) != image_shape:
        wanted = ", ".join(str(n) for n in image_shape)
        raise UserError(
            f"images have shape {tuple(batch.shape)}; this model takes ({wanted}) or "
            f"(batch, {wanted}): resize or convert them first"
        )
    single = batch.ndim == 3
    batch = as_batch(batch, ndim=4).to(like.device, like.dtype)
    if values and batch.numel():
        low, high = (float(value) for value in batch.detach().aminmax())
        if not (low >= -_SLACK and high <= 1 + _SLACK):
            raise UserError(f"images have values from {low:g} to {high:g}; pass values in [0, 1]")
    return batch, single


def check_latents(latents: Any, operators: Float[Tensor, "m d d"]) -> Float[Tensor, "*b d"]:
    """Bring latent points to the device of the operators that act on them."""
    points = torch.as_tensor(latents)
    dimension = operators.shape[-1]
    if points.ndim < 1 or points.shape[-1] != dimension:
        raise UserError(
            f"latents have shape {tuple(points.shape)}; the last axis must have length {dimension}"
        )
    return points.to(operators.device, operators.dtype)


def as_batch(values: Tensor, *, ndim: int = 2) -> Tensor:
    """Make a single item a batch of one."""
    return values.unsqueeze(0) if values.ndim < ndim else values


def in_chunks(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Apply a network to a few rows at a time, images laid out channels-last."""
    outputs = []
    for start in range(0, max(1, len(inputs)), _CHUNK):
        chunk = inputs[start : start + _CHUNK]
        if chunk.ndim == 4:
            chunk = chunk.contiguous(memory_format=torch.channels_last)
        outputs.append(function(chunk).contiguous())
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)
