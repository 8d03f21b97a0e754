"""Files that a power cut cannot break: written aside, flushed to disk, renamed into place.

Tensors are stored as safetensors with a digest, everything else as JSON or TOML; nothing is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transop.errors import ArtifactError
from transop.files import make_folder, read_regular, reason_of, refuse_odd_target

FORMAT_VERSION = 1
_LARGEST_JSON = 2**26  # bytes
_TENSOR = "__tensor__"
_TUPLE = "__tuple__"
_KEYED = "__keyed__"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content in one step, so that no reader ever sees half of it."""
    make_folder(path.parent)
    try:
        refuse_odd_target(path)
    except OSError as error:
        raise ArtifactError(
            f"cannot write to '{path}': {reason_of(error)}; choose another file"
        ) from None
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if error.errno is not None:  # a failed write names no file, a failed open the one aside
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing or damaged one is named in the error."""
    try:
        return json.loads(read_regular(path, most_bytes=_LARGEST_JSON).decode("utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"'{path}' does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"'{path}' is not readable JSON: {error}") from None


def save_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write a nested state (tensors, numbers, strings, dicts, lists) as one safetensors file.

    A state is e.g. ``{"model": module.state_dict(), "step": 7}``, of kind ``"checkpoint"``.
    """
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_take_apart(dict(state), "", tensors))
    info = {
        "format": "transop",
        "format_version": str(FORMAT_VERSION),
        "kind": kind,
        "state": skeleton,
        "digest": _digest(tensors, skeleton),
    }
    write_atomically(path, _in_fixed_order(save(tensors, metadata=info)))


def _in_fixed_order(content: bytes) -> bytes:
    """Sort the notes in a safetensors header, so that equal states are equal files.

    The library writes them in an order that changes from process to process.
    """
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of eight bytes
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(content)[8 + length :]])


def load_state(path: Path, *, kind: str) -> dict[str, Any]:
    """Read what ``save_state`` wrote, refusing damaged, foreign and newer files by name."""
    if not path.is_file():
        raise ArtifactError(f"'{path}' does not exist or is no file")
    try:
        with safe_open(path, framework="pt") as file:
            info = file.metadata() or {}
            _check_header(path, info, kind)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except ArtifactError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise ArtifactError(
            f"'{path}' is not a complete safetensors file (truncated or foreign): {error}"
        ) from None
    skeleton = info.get("state", "")
    if info.get("digest") != _digest(tensors, skeleton):
        raise ArtifactError(f"'{path}' is damaged: its content does not match its digest")
    try:
        state = _put_together(json.loads(skeleton), tensors)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(f"'{path}' is damaged: {type(error).__name__} {error}") from None
    if not isinstance(state, dict):
        raise ArtifactError(f"'{path}' is damaged: it holds no table of values")
    return state


def _check_header(path: Path, info: Mapping[str, str], kind: str) -> None:
    if info.get("format") != "transop":
        raise ArtifactError(f"'{path}' was not written by transop")
    version = info.get("format_version", "")
    if version not in map(str, range(1, FORMAT_VERSION + 1)):
        raise ArtifactError(
            f"'{path}' has format version {version[:20] or 'unknown'}, this transop reads up to "
            f"{FORMAT_VERSION}; upgrade transop to load it"
        )
    if info.get("kind") != kind:
        raise ArtifactError(f"'{path}' holds a {info.get('kind')}, not a {kind}")


def _digest(tensors: Mapping[str, Tensor], skeleton: str) -> str:
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        flat = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(flat.numpy().data)
    return digest.hexdigest()


def _take_apart(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Replace every tensor by a reference and collect it; the rest must be JSON."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {k: _take_apart(v, f"{name}/{k}", tensors) for k, v in value.items()}
        pairs = [[k, _take_apart(v, f"{name}/{k}", tensors)] for k, v in value.items()]
        return {_KEYED: pairs}  # optimisers number their parameters
    if isinstance(value, list | tuple):
        items = [_take_apart(v, f"{name}/{i}", tensors) for i, v in enumerate(value)]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"cannot store {type(value).__name__} under '{name}'")


def _put_together(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        if _TUPLE in value:
            return tuple(_put_together(v, tensors) for v in value[_TUPLE])
        if _KEYED in value:
            return {k: _put_together(v, tensors) for k, v in value[_KEYED]}
        return {k: _put_together(v, tensors) for k, v in value.items()}
    if isinstance(value, list):
        return [_put_together(v, tensors) for v in value]
    return value
