"""Checks of tensors: what they are, what they hold, and whether they fit each other.

Those that take arguments by name only refuse: where gradients flow, nothing is converted silently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError, UserError, show

_SLACK = 1e-3  # what resizing may add to the range of pixels


def check_tensor(name: str, values: Any) -> Tensor:
    """Turn an array, a list of numbers or tensors, or a tensor into a plain dense tensor."""
    remedy = "pass an array, a tensor or a list of numbers"
    if isinstance(values, Tensor):
        check_dense(**{name: values})
        return values
    if values is None or isinstance(values, str | bytes | dict | set):
        raise TensorError(f"{name} = {show(values)}; {remedy}")
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
        raise TensorError(f"{name} = {show(values)} cannot be used: {reason}; {remedy}") from None


def _stack(name: str, values: Sequence[Any]) -> Tensor:
    parts = [check_tensor(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if len({part.shape for part in parts}) != 1:
        shapes = sorted({tuple(part.shape) for part in parts})
        raise TensorError(f"{name} is a list of tensors of different shapes, {show(shapes)}")
    return torch.stack(parts)


def check_floats(name: str, values: Any) -> Tensor:
    """Do as `check_tensor`, and refuse what holds no floats."""
    tensor = check_tensor(name, values)
    if not tensor.is_floating_point():
        raise TensorError(f"{name} has type {tensor.dtype}; pass floats")
    return tensor


def check_indices(name: str, values: Any, end: int, *, least: int = 0) -> Tensor:
    """Take a list of whole numbers from ``least`` on and below ``end``, as int64."""
    indices = check_tensor(name, values).detach().cpu()
    if indices.ndim != 1 or indices.is_floating_point() or indices.dtype == torch.bool:
        raise TensorError(
            f"{name} has type {indices.dtype} and shape {tuple(indices.shape)}; pass a list of "
            "whole numbers"
        )
    indices = indices.to(torch.int64)
    if len(indices) == 0 or int(indices.min()) < least or int(indices.max()) >= end:
        found = f"run from {int(indices.min())} to {int(indices.max())}" if len(indices) else "none"
        raise TensorError(f"{name}: {found}; pass whole numbers from {least} to {end - 1}")
    return indices


def check_dense(**arguments: Any) -> None:
    """Refuse whatever is not a tensor of real numbers that lie in memory."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TensorError(
                f"{name} = {show(value)} must be a torch.Tensor; for arrays and lists of numbers "
                "use torch.as_tensor(...)"
            )
        if value.layout is not torch.strided:
            raise TensorError(f"{name} is a sparse tensor; pass {name}.to_dense()")
        if value.device.type == "meta":
            raise TensorError(f"{name} is on the device 'meta' and has no values; pass real ones")
        if value.is_quantized:
            raise TensorError(f"{name} is quantised; pass {name}.dequantize()")
        if value.is_complex():
            raise TensorError(f"{name} is complex; pass real numbers")


def check_alike(**arguments: Any) -> None:
    """Refuse tensors that do not share one floating-point type and one device."""
    check_dense(**arguments)
    first_name, first = next(iter(arguments.items()))
    for name, tensor in arguments.items():
        if not tensor.is_floating_point():
            raise TensorError(f"{name} has type {tensor.dtype}; convert it with .float()")
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise TensorError(
                f"{name} is {tensor.dtype} on {tensor.device} but {first_name} is {first.dtype} "
                f"on {first.device}; convert one with .to(...) so that they agree"
            )


def check_precise(**arguments: Tensor) -> None:
    """Refuse the short floats that linear algebra on CPUs does not know."""
    for name, tensor in arguments.items():
        if tensor.dtype not in (torch.float32, torch.float64):
            raise TensorError(f"{name} is {tensor.dtype}; pass float32 or float64, use .float()")


def check_finite(**arguments: Any) -> None:
    """Refuse tensors with entries that are NaN or infinite."""
    check_dense(**arguments)
    for name, tensor in arguments.items():
        # A finite sum proves finite entries in one pass; only a sum that is not asks for more.
        if math.isfinite(float(tensor.detach().sum())):
            continue
        n_bad = int((~torch.isfinite(tensor)).sum())
        if n_bad:
            raise TensorError(
                f"{name} has {n_bad} non-finite entries out of {tensor.numel()} (shape "
                f"{tuple(tensor.shape)}); remove the NaN or infinite values before calling"
            )


def check_operators(operators: Any) -> None:
    """Refuse what is not a dictionary of operators: one square matrix per slice."""
    check_alike(operators=operators)
    if operators.ndim != 3 or operators.shape[1] != operators.shape[2]:
        raise TensorError(
            f"operators has shape {tuple(operators.shape)}; pass one square matrix per slice, "
            "shape (m, d, d)"
        )


def check_dictionary(operators: Any, coefficients: Any, **points: Any) -> None:
    """Refuse coefficients and points that do not fit the number and size of the operators."""
    check_operators(operators)
    check_alike(operators=operators, coefficients=coefficients, **points)
    m, d = operators.shape[0], operators.shape[1]
    if coefficients.ndim < 1 or coefficients.shape[-1] != m:
        raise TensorError(
            f"coefficients has shape {tuple(coefficients.shape)} but there are {m} operators; "
            f"its last axis must have length {m}"
        )
    for name, tensor in points.items():
        if tensor.ndim < 1 or tensor.shape[-1] != d:
            raise TensorError(
                f"{name} has shape {tuple(tensor.shape)} but the operators act on {d} dimensions; "
                f"its last axis must have length {d}"
            )
        if not _fit(coefficients.shape[:-1], tensor.shape[:-1]):
            raise TensorError(
                f"coefficients has shape {tuple(coefficients.shape)} and {name} "
                f"{tuple(tensor.shape)}; pass one row of coefficients for each point, or one for "
                "all"
            )


def check_paired(operators: Any, coefficients: Any, **points: Any) -> None:
    """Do as `check_dictionary`, and refuse anything but one row of coefficients per point."""
    check_dictionary(operators, coefficients, **points)
    for name, tensor in points.items():
        if tensor.ndim != 2 or coefficients.shape[:-1] != tensor.shape[:-1]:
            raise TensorError(
                f"coefficients has shape {tuple(coefficients.shape)} and {name} "
                f"{tuple(tensor.shape)}; pass tables with as many rows"
            )


def check_shapes_fit(**arguments: Tensor) -> None:
    """Refuse two tensors whose axes neither agree nor have length one."""
    (name, one), (other_name, other) = arguments.items()
    if not _fit(one.shape, other.shape):
        raise TensorError(
            f"{other_name} has shape {tuple(other.shape)}, which does not fit {name} of shape "
            f"{tuple(one.shape)}; pass the same shape, or one value for all"
        )


def _fit(one: Sequence[int], other: Sequence[int]) -> bool:
    """Say whether two shapes broadcast."""
    axes = zip(reversed(one), reversed(other), strict=False)
    return all(a == b or a == 1 or b == 1 for a, b in axes)


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
    if not _fit(chosen.shape[:-1], points.shape[:-1]):
        raise UserError(
            f"coefficients have shape {tuple(chosen.shape)} and latents {tuple(points.shape)}; "
            "pass one row of coefficients for each point, or one for all"
        )
    return chosen.to(points.device, points.dtype)


def as_batch(values: Tensor, *, ndim: int = 2) -> Tensor:
    """Make a single item a batch of one."""
    return values.unsqueeze(0) if values.ndim < ndim else values
