"""The one place where Python arguments are checked: what is usable is converted, the rest refused.

Every check names the argument, says what was received and what would be right.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError, show

_CHUNK = 250  # rows through a network at once: larger chunks leave the cache and are slower
_SLACK = 1e-3  # what resizing may add to the range of pixels


def check_tensor(name: str, values: Any) -> Tensor:
    """Turn an array, a list of numbers or tensors, or a tensor into a plain dense tensor."""
    remedy = "pass an array, a tensor or a list of numbers"
    if isinstance(values, Tensor):
        return _check_dense(name, values)
    if values is None or isinstance(values, str | bytes | dict | set):
        raise UserError(f"{name} = {show(values)}; {remedy}")
    if isinstance(values, list | tuple) and any(isinstance(v, Tensor) for v in values):
        return _stack(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"its entries have type {array.dtype}")
        # Torch takes neither negative strides, foreign byte orders nor long doubles.
        native = array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.float64
        return torch.from_numpy(np.array(array, dtype=native))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"{name} = {show(values)} cannot be used: {reason}; {remedy}") from None


def _stack(name: str, values: Sequence[Any]) -> Tensor:
    parts = [check_tensor(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if len({part.shape for part in parts}) != 1:
        shapes = sorted({tuple(part.shape) for part in parts})
        raise UserError(f"{name} is a list of tensors of different shapes, {show(shapes)}")
    return torch.stack(parts)


def _check_dense(name: str, tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.strided:
        raise UserError(f"{name} is a sparse tensor; pass {name}.to_dense()")
    if tensor.is_meta:
        raise UserError(f"{name} is on the device 'meta' and has no values; pass real ones")
    if tensor.is_quantized:
        raise UserError(f"{name} is quantised; pass {name}.dequantize()")
    if tensor.is_complex():
        raise UserError(f"{name} is complex; pass real numbers")
    return tensor


def check_floats(name: str, values: Any) -> Tensor:
    """Do as `check_tensor`, and refuse what holds no floats."""
    tensor = check_tensor(name, values)
    if not tensor.is_floating_point():
        raise UserError(f"{name} has type {tensor.dtype}; pass floats")
    return tensor


def check_whole(name: str, value: Any, *, least: int, most: int = 2**31 - 1) -> int:
    """Take a whole number between two bounds; 2.0 is none."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:
        bounds = f"from {least}" + (f" to {most}" if most < 2**31 - 1 else " on")
        raise UserError(f"{name} = {show(value)} must be a whole number {bounds}")
    return int(value)


def check_number(
    name: str,
    value: Any,
    what: str,
    *,
    low: float = 0.0,
    high: float = math.inf,
    open: bool = False,
) -> float:
    """Take a finite number between two bounds.

    Args:
        name: of the argument.
        value: what was given.
        what: what it must be, in words.
        low: least value.
        high: greatest value.
        open: leave the least value itself out.
    """
    scalar = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    real = isinstance(scalar, numbers.Real) and not isinstance(scalar, bool)
    number = float(scalar) if real and abs(scalar) < 1e300 else math.nan
    if not (math.isfinite(number) and low <= number <= high) or (open and number == low):
        raise UserError(f"{name} = {show(value)} must be {what}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Take True or False."""
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"{name} = {show(value)} must be True or False")
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Take one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise UserError(
            f"{name} = {show(value)} is unknown; choose one of {', '.join(map(repr, choices))}"
        )


def check_names(name: str, values: Any) -> tuple[str, ...]:
    """Take a list of words."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise UserError(f"{name} = {show(values)} must be a list of words")
    return tuple(values)


def check_kind(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Take an object of a class, or None where that is allowed."""
    if not isinstance(value, kind) and not (optional and value is None):
        raise UserError(f"{name} = {show(value)} must be a {kind.__name__}")


def check_path(name: str, value: Any) -> Path:
    """Take a path as text or as a Path."""
    if not isinstance(value, str | Path):
        raise UserError(f"{name} = {show(value)} is no path; pass a str or a pathlib.Path")
    return Path(value)


def check_generator(generator: Any) -> torch.Generator | None:
    """Take a torch generator or None."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise UserError(
            f"generator = {show(generator)} must be a torch.Generator, such as "
            "torch.Generator().manual_seed(3)"
        )
    return generator


def check_device(device: Any) -> torch.device:
    """Take a device that exists here."""
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"device = {show(device)} cannot be used here: {reason}") from None
    if chosen.type == "meta":
        raise UserError("device = 'meta' holds no values; use 'cpu', 'cuda', 'cuda:N' or 'mps'")
    return chosen


def check_times(times: Any, like: Tensor) -> Float[Tensor, " t"]:
    """Bring places on a path to the device of the points: one finite number or a list of them."""
    places = check_tensor("t", times)
    if places.ndim > 1 or not bool(places.isfinite().all()):
        raise UserError(f"t = {show(times)} must be finite numbers, such as [0, 0.5, 1]")
    return places.reshape(-1).to(like)


def check_images(
    images: Any,
    image_shape: tuple[int, ...],
    like: Tensor,
    *,
    values: bool = True,
    bounded: bool = True,
) -> tuple[Float[Tensor, "b ..."], bool]:
    """Bring images to a device as a batch.

    Args:
        images: one image or a batch, floats in [0, 1].
        image_shape: channels, height and width the network takes.
        like: a weight whose device and type to take on.
        values: look at the values too, which costs a pass over them and cannot be compiled.
        bounded: they must lie in [0, 1]; networks of the user's own may take others.

    Returns:
        The batch, and whether it was a single image.
    """
    batch = check_tensor("images", images) if values else images
    if not batch.is_floating_point():
        raise UserError(
            f"images have type {batch.dtype}; pass floats in [0, 1], such as images / 255"
        )
    ndim = len(image_shape)
    if batch.ndim not in (ndim, ndim + 1) or tuple(batch.shape[-ndim:]) != image_shape:
        wanted = ", ".join(str(n) for n in image_shape)
        raise UserError(
            f"images have shape {tuple(batch.shape)}; this model takes ({wanted}) or "
            f"(batch, {wanted}): resize or convert them first"
        )
    single = batch.ndim == ndim
    batch = as_batch(batch, ndim=ndim + 1).to(like.device, like.dtype)
    if values and batch.numel():
        low, high = (float(value) for value in batch.detach().aminmax())
        inside = low >= -_SLACK and high <= 1 + _SLACK
        if not (inside if bounded else math.isfinite(low) and math.isfinite(high)):
            wanted = "values in [0, 1]" if bounded else "finite values"
            raise UserError(f"images have values from {low:g} to {high:g}; pass {wanted}")
    return batch, single


def check_latents(latents: Any, dimension: int, like: Tensor) -> Float[Tensor, "*b d"]:
    """Bring latent points to the device of the operators that act on them.

    Args:
        latents: one point or any number of them.
        dimension: length of the last axis.
        like: a weight whose device and type to take on.
    """
    points = check_tensor("latents", latents)
    if points.ndim < 1 or points.shape[-1] != dimension:
        raise UserError(
            f"latents have shape {tuple(points.shape)}; the last axis must have length {dimension}"
        )
    return points.to(like.device, like.dtype)


def check_coefficients(coefficients: Any, n_operators: int, points: Tensor) -> Tensor:
    """Bring coefficients to the points they move; leading axes must broadcast."""
    chosen = check_tensor("coefficients", coefficients)
    if chosen.ndim < 1 or chosen.shape[-1] != n_operators:
        raise UserError(
            f"coefficients have shape {tuple(chosen.shape)}; the last axis must have length "
            f"{n_operators}, one for each operator"
        )
    try:
        np.broadcast_shapes(tuple(chosen.shape[:-1]), tuple(points.shape[:-1]))
    except ValueError:
        raise UserError(
            f"coefficients have shape {tuple(chosen.shape)} and latents {tuple(points.shape)}; "
            "pass one row of coefficients for each point, or one for all"
        ) from None
    return chosen.to(points.device, points.dtype)


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
