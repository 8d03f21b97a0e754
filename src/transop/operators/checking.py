"""Checks on tensors a caller hands in, with messages that name the argument at fault."""

import math
import numbers
import operator
from typing import Any

import torch
from torch import Tensor

from transop.errors import UserError, show

_LACKS_LINEAR_ALGEBRA = ("mps",)


class TensorError(UserError):
    """A tensor has the wrong shape, type or contents."""


def require_tensors(**arguments: Any) -> None:
    """Raise unless every named argument is an ordinary tensor with its numbers in memory."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TensorError(
                f"{name} is of type {type(value).__name__}; pass a torch.Tensor, for arrays and "
                "lists torch.as_tensor(...)"
            )
        if value.layout != torch.strided or value.device.type == "meta":
            raise TensorError(
                f"{name} is a {value.layout} tensor on {value.device}; pass a dense tensor that "
                "holds its numbers"
            )


def require_count(name: str, value: Any, *, least: int = 1, most: int = 1_000_000) -> int:
    """Return a whole number as a Python int; raise unless it is one and lies in its range.

    Numpy's integers are whole numbers too. Floats and booleans are not, whatever their value.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise UserError(
            f"{name}={show(value)} is of type {type(value).__name__}; pass a whole number such as "
            f"{max(least, 1)}"
        )
    if count < least:
        raise UserError(f"{name}={show(count)} must be at least {least}")
    if count > most:
        raise UserError(f"{name}={show(count)} is too large; pass at most {most:,}")
    return count


def require_number(name: str, value: Any, *, positive: bool = True) -> float:
    """Return a real number as a Python float; raise unless it is finite and, mostly, positive."""
    if isinstance(value, Tensor) and value.ndim == 0 and value.is_floating_point():
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise UserError(f"{name}={show(value)} is of type {type(value).__name__}; pass a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UserError(f"{name}={show(value)} must be finite")
    if positive and not number > 0:
        raise UserError(f"{name}={show(value)} must be positive")
    return number


def require_generator(name: str, value: Any) -> None:
    """Raise unless the argument is a source of randomness or left out."""
    if value is not None and not isinstance(value, torch.Generator):
        raise UserError(
            f"{name} is of type {type(value).__name__}; pass a torch.Generator, for a seed "
            "torch.Generator().manual_seed(...)"
        )


def where_supported(tensor: Tensor) -> Tensor:
    """Move a tensor to the CPU if its device lacks double precision and eigenvalues.

    Apple's MPS does. Results go back with ``.to(device)``.
    """
    return tensor.cpu() if tensor.device.type in _LACKS_LINEAR_ALGEBRA else tensor


def require_finite(**arguments: Tensor) -> None:
    """Raise unless every entry of every named tensor is finite."""
    require_tensors(**arguments)
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


def require_floating(**arguments: Tensor) -> None:
    """Raise unless all named tensors share one floating-point type and one device."""
    first_name, first = next(iter(arguments.items()))
    for name, tensor in arguments.items():
        if not tensor.is_floating_point():
            raise TensorError(f"{name} has type {tensor.dtype}; convert it with .float()")
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise TensorError(
                f"{name} is {tensor.dtype} on {tensor.device} but {first_name} is {first.dtype} "
                f"on {first.device}; convert one with .to(...) so that they agree"
            )


def require_dictionary(operators: Tensor, coefficients: Tensor, **points: Tensor) -> None:
    """Raise unless coefficients and points fit the number and size of the operators."""
    require_tensors(operators=operators, coefficients=coefficients, **points)
    if operators.ndim != 3 or operators.shape[1] != operators.shape[2]:
        raise TensorError(
            f"operators has shape {tuple(operators.shape)}; pass one square matrix per slice, "
            "shape (m, d, d)"
        )
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
    require_floating(operators=operators, coefficients=coefficients, **points)
