"""Values for Python calls that are nearly right, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def nearly_right() -> dict[str, Callable[[], Any]]:
    """List arguments that are nearly right, or not at all, each made when it is needed."""
    return {
        "empty tensor": lambda: torch.empty(0),
        "scalar tensor": lambda: torch.tensor(3.0),
        "integers": lambda: torch.ones(4, 3, dtype=torch.int64),
        "half precision": lambda: torch.ones(4, 3, dtype=torch.float16),
        "double precision": lambda: torch.ones(4, 3, dtype=torch.float64),
        "complex": lambda: torch.ones(4, 3, dtype=torch.complex64),
        "bool tensor": lambda: torch.ones(4, 3, dtype=torch.bool),
        "meta": lambda: torch.ones(4, 3, device="meta"),
        "sparse": lambda: torch.ones(4, 3).to_sparse(),
        "nan tensor": lambda: torch.full((4, 3), float("nan")),
        "inf tensor": lambda: torch.full((4, 3), float("inf")),
        "huge values": lambda: torch.full((4, 3), 1e30),
        "no rows": lambda: torch.ones(0, 3),
        "no columns": lambda: torch.ones(4, 0),
        "five axes": lambda: torch.ones(1, 1, 1, 1, 1),
        "needs gradient": lambda: torch.ones(4, 3, requires_grad=True),
        "numpy": lambda: np.ones((4, 3), np.float32),
        "numpy double": lambda: np.ones((4, 3)),
        "numpy float": lambda: np.float64(2.5),
        "numpy integer": lambda: np.int64(2),
        "numpy objects": lambda: np.array([None, "x"], dtype=object),
        "numpy texts": lambda: np.array(["a", "b"]),
        "negative strides": lambda: np.ones((4, 3), np.float32)[::-1, ::-1],
        "read only": lambda: np.broadcast_to(np.float32(1), (4, 3)),
        "images": lambda: torch.rand(4, 1, 16, 16),
        "one image": lambda: torch.rand(1, 16, 16),
        "byte images": lambda: torch.zeros(4, 1, 16, 16, dtype=torch.uint8),
        "list of lists": lambda: [[1.0, 2.0, 3.0]],
        "bytes": lambda: b"x",
        "object": object,
        "class": lambda: int,
        "function": lambda: len,
        "generator": torch.Generator,
        "python random": random.Random,
        "iterator": lambda: iter([1, 2]),
        "module": lambda: torch.nn.Linear(3, 3),
        "cuda:7": lambda: "cuda:7",
        "mps": lambda: "mps",
        "path": lambda: Path("nowhere"),
    }


def spoil(good: Any) -> dict[str, Callable[[], Any]]:
    """List changes of a good value, most of which are wrong by little."""
    if isinstance(good, bool) or good is None:
        return {}
    if isinstance(good, int | float):
        changes = {"as text": str, "as a numpy float": np.float32, "negative": lambda g: -g}
        changes |= {
            "as a list": lambda g: [g],
            "as a tensor": torch.tensor,
            "none": lambda g: 0 * g,
        }
        changes |= {"as a float": float, "times 50": lambda g: 50 * g, "tiny": lambda g: g * 1e-30}
    elif isinstance(good, str | Path):
        changes = {"in capitals": lambda g: str(g).upper(), "as bytes": lambda g: str(g).encode()}
        changes |= {"with a space": lambda g: f"{g} ", "as a list": lambda g: [g]}
        changes |= {"as a path": Path, "cut": lambda g: str(g)[:-1]}
    elif isinstance(good, torch.Tensor):
        changes = _SPOILED_TENSORS
    else:
        return {}
    return {f"its value {name}": (lambda c=change: c(good)) for name, change in changes.items()}


def _with(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """Replace one entry."""
    spoiled = tensor.clone()
    spoiled.reshape(-1)[:1] = value
    return spoiled


_SPOILED_TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "as numpy": lambda t: t.numpy(),
    "as big-endian numpy": lambda t: t.numpy().astype(">f4"),
    "as long double": lambda t: t.numpy().astype(np.longdouble),
    "as lists": lambda t: t.tolist(),
    "as a tuple of tensors": tuple,
    "as double": lambda t: t.double(),
    "as half": lambda t: t.half(),
    "as bfloat16": lambda t: t.bfloat16(),
    "as integers": lambda t: t.long(),
    "as bytes": lambda t: (255 * t).byte(),
    "with NaN": lambda t: _with(t, float("nan")),
    "with infinity": lambda t: _with(t, float("inf")),
    "with 1e30": lambda t: _with(t, 1e30),
    "negative": lambda t: -t,
    "times 1e20": lambda t: t * 1e20,
    "times 1e-30": lambda t: t * 1e-30,
    "all zero": torch.zeros_like,
    "without rows": lambda t: t[:0],
    "one row": lambda t: t[:1],
    "a row less": lambda t: t[:-1],
    "twice as long": lambda t: torch.cat([t, t]),
    "a column less": lambda t: t[..., :-1],
    "with an axis more": lambda t: t[None],
    "with an axis less": lambda t: t[0],
    "without axes": lambda t: t.sum(),
    "back to front": lambda t: t.flip(-1),
    "transposed": lambda t: t.transpose(0, -1),
    "not contiguous": lambda t: torch.stack([t, t], -1)[..., 0],
    "expanded": lambda t: t[:1].expand_as(t),
    "with a gradient": lambda t: t.clone().requires_grad_(),
    "of a graph": lambda t: t.clone().requires_grad_() * 2,
    "as a parameter": torch.nn.Parameter,
    "on meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "sparse by rows": lambda t: t.reshape(len(t), -1).to_sparse_csr(),
    "complex": lambda t: t.to(torch.complex64),
    "quantised": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.quint8),
    "made in inference mode": lambda t: _inferred(t),
}


@torch.inference_mode()
def _inferred(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()
