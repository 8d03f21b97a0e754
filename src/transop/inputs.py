"""The one place where Python arguments are checked: what is usable is converted, the rest refused.

Every check names the argument, says what was received and what would be right. Checks that convert
(`check_tensor` makes a tensor of a list) return what to use. Those that take tensors by name only
refuse: where gradients flow, nothing is converted silently.
"""

from __future__ import annotations

import inspect
import math
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import TensorError, UserError, did_you_mean, show
from transop.files import DEEPEST

_MOST = 2**31 - 1  # of a count, where nothing else limits it: what compiled code holds
_LARGEST = 3e38  # number that torch's usual floats hold
_LARGEST_SEED = 2**63 - 1  # what torch holds
# Bytes that file systems allow for one name and for a whole path.
_LONGEST_NAME, _LONGEST_PATH = 255, 4095
_SLACK = 1e-3  # what resizing may add to the range of pixels


def check_whole(name: str, value: Any, *, least: int, most: int = _MOST) -> int:
    """Take a whole number between two bounds, also one of numpy's; 2.0 and True are none."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:
        raise UserError(f"{name} = {show(value)} must be a whole number from {least} to {most}")
    return int(value)


def check_seed(name: str, value: Any) -> int:
    """Take the seed of a source of randomness."""
    return check_whole(name, value, least=0, most=_LARGEST_SEED)


def check_number(
    name: str,
    value: Any,
    what: str,
    *,
    low: float = 0.0,
    high: float = math.inf,
    open: bool = False,
) -> float:
    """Take a finite number between two bounds; ``what`` says in words what it must be.

    ``open`` leaves the least value itself out.
    """
    scalar = value
    if isinstance(value, Tensor) and value.numel() == 1:
        check_dense(**{name: value})
        scalar = value.item()
    real = isinstance(scalar, numbers.Real) and not isinstance(scalar, bool)
    if real and _LARGEST < abs(scalar) < math.inf:
        raise UserError(f"{name} = {show(value)} is too large; it must be {what}")
    number = float(scalar) if real else math.nan
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
        hint = did_you_mean(show(value).strip("'"), choices)
        valid = ", ".join(map(repr, choices))
        raise UserError(f"{name} = {show(value)} is unknown; choose one of {valid}{hint}")


def check_names(name: str, values: Any) -> tuple[str, ...]:
    """Take a list of words."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise UserError(f"{name} = {show(values)} must be a list of words")
    return tuple(values)


def check_kind(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Take an object of a class, or None where that is allowed."""
    if not isinstance(value, kind) and not (optional and value is None):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise UserError(f"{name} = {show(value)} must be {article} {kind.__name__}")


def check_callable(
    name: str, value: Any, *, n_arguments: int | None = None, optional: bool = False
) -> None:
    """Take a function, a torch module or whatever else can be called with so many arguments."""
    if optional and value is None:
        return
    if not callable(value):
        raise UserError(f"{name} = {show(value)} must be a function or a torch module")
    try:
        if n_arguments is not None:
            inspect.signature(value).bind(*[None] * n_arguments)
    except ValueError:  # some functions of other languages do not tell
        pass
    except TypeError:
        wanted = f"must be a function of {n_arguments} arguments"
        raise UserError(f"{name} = {show(value)} {wanted}") from None


def check_path(name: str, value: Any) -> Path:
    """Take a path as text or as a Path, if a file system could hold it."""
    if not isinstance(value, str | Path):
        raise UserError(f"{name} = {show(value)} is no path; pass a str or a pathlib.Path")
    path = Path(value)
    try:
        names = [os.fsencode(part) for part in path.parts]
    except UnicodeEncodeError:
        names = [b"\0"]
    if any(b"\0" in part for part in names):
        raise UserError(f"{name} = {show(value)} holds characters that no file name has")
    size = sum(len(part) + 1 for part in names)
    if max(map(len, names), default=0) > _LONGEST_NAME or size > _LONGEST_PATH:
        most = f"a name has at most {_LONGEST_NAME} bytes and a path {_LONGEST_PATH}"
        raise UserError(f"{name} = {show(value)} is too long; {most}")
    if len(names) > DEEPEST:
        deep = f"{len(names)} folders deep; choose a place at most {DEEPEST} deep"
        raise UserError(f"{name} = {show(value)} is {deep}")
    return path


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
    _check_last_axis("coefficients", coefficients, m, f"there are {m} operators")
    for name, tensor in points.items():
        _check_last_axis(name, tensor, d, f"the operators act on {d} dimensions")
        _check_rows_fit(coefficients, name, tensor)


def _check_last_axis(name: str, tensor: Tensor, length: int, why: str) -> None:
    if tensor.ndim < 1 or tensor.shape[-1] != length:
        raise TensorError(
            f"{name} has shape {tuple(tensor.shape)} but {why}; its last axis must have length "
            f"{length}"
        )


def _check_rows_fit(coefficients: Tensor, name: str, points: Tensor) -> None:
    if not _fit(coefficients.shape[:-1], points.shape[:-1]):
        raise TensorError(
            f"coefficients has shape {tuple(coefficients.shape)} and {name} "
            f"{tuple(points.shape)}; pass one row of coefficients for each point, or one for all"
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
    """Bring one image or more to the device and type of a weight, and say whether it was one.

    ``values`` looks at the values too, which costs a pass over them and cannot be compiled;
    ``bounded`` asks for [0, 1], which networks of the user's own need not.
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
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UserError("images hold NaN or infinity; remove NaN first, e.g. x.nan_to_num()")
        if bounded and not (low >= -_SLACK and high <= 1 + _SLACK):
            raise UserError(f"images have values from {low:g} to {high:g}; pass values in [0, 1]")
    return batch, single


def check_latents(latents: Any, dimension: int, like: Tensor) -> Float[Tensor, "*b d"]:
    """Bring one latent point or more to the device and type of the operators."""
    points = check_tensor("latents", latents)
    _check_last_axis("latents", points, dimension, f"the operators act on {dimension} dimensions")
    return points.to(like.device, like.dtype)


def check_coefficients(coefficients: Any, n_operators: int, points: Tensor) -> Tensor:
    """Bring coefficients to the points they move; leading axes must broadcast."""
    chosen = check_tensor("coefficients", coefficients)
    _check_last_axis("coefficients", chosen, n_operators, f"there are {n_operators} operators")
    _check_rows_fit(chosen, "latents", points)
    return chosen.to(points.device, points.dtype)


def as_batch(values: Tensor, *, ndim: int = 2) -> Tensor:
    """Make a single item a batch of one."""
    return values.unsqueeze(0) if values.ndim < ndim else values
