"""Checks of numbers, words, paths, functions and devices."""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transop.errors import UserError, show
from transop.files import DEEPEST
from transop.inputs.tensors import check_dense

_MOST = 2**31 - 1  # of a count, where nothing else limits it: what compiled code holds
_LARGEST = 3e38  # number that torch's usual floats hold
_LARGEST_SEED = 2**63 - 1  # what torch holds
# Bytes that file systems allow for one name and for a whole path.
_LONGEST_NAME, _LONGEST_PATH = 255, 4095


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
    """Take a finite number between two bounds.

    Args:
        name: of the argument.
        value: what was given.
        what: what it must be, in words.
        low: least value.
        high: greatest value.
        open: leave the least value itself out.
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
        near = difflib.get_close_matches(show(value).strip("'"), choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(
            f"{name} = {show(value)} is unknown; choose one of "
            f"{', '.join(map(repr, choices))}{hint}"
        )


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


def check_callable(name: str, value: Any, *, optional: bool = False) -> None:
    """Take a function, a torch module or whatever else can be called."""
    if not callable(value) and not (optional and value is None):
        raise UserError(f"{name} = {show(value)} must be a function or a torch module")


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
    too_long = any(len(part) > _LONGEST_NAME for part in names)
    if too_long or sum(len(part) + 1 for part in names) > _LONGEST_PATH:
        raise UserError(
            f"{name} = {show(value)} is too long; a name has at most {_LONGEST_NAME} bytes and a "
            f"path {_LONGEST_PATH}"
        )
    if len(names) > DEEPEST:
        raise UserError(
            f"{name} = {show(value)} is {len(names)} folders deep; choose a place at most "
            f"{DEEPEST} deep"
        )
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
