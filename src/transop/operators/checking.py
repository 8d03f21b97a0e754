"""Checks on tensors a caller hands in, with messages that name the argument at fault."""

import math

import torch
from torch import Tensor

from transop.errors import UserError, show


class TensorError(UserError):
    """A tensor has the wrong shape, type or contents."""


def require_tensors(**arguments: object) -> None:
    """Raise unless every named argument is a plain dense tensor."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TensorError(f"{name} = {show(value)} is no tensor; pass torch.as_tensor({name})")
        if value.layout is not torch.strided:
            raise TensorError(f"{name} is a sparse tensor; pass {name}.to_dense()")
        if value.device.type == "meta":
            raise TensorError(f"{name} is on the device 'meta' and has no values")


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
